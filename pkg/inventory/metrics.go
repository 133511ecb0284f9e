package inventory

import "encoding/binary"

// metricsLayouts has the layouts of gpu_metrics, the table of the power firmware. Revision
// 1.3 is used on MI200, the later ones on MI300 and MI350. The size is part of the key, since
// revision 1.6 had a different layout before its release. See kgd_pp_interface.h of the
// kernel.
var metricsLayouts = map[metricsHeader]metricsLayout{
	{size: 120, format: 1, content: 3}:  {status: 112},
	{size: 1664, format: 1, content: 6}: {residencies: 36},
	{size: 2208, format: 1, content: 7}: {residencies: 44},
	{size: 3360, format: 1, content: 8}: {residencies: 44},
}

type metricsHeader struct {
	size            uint16
	format, content uint8
}

// metricsLayout has offsets in bytes; 0 means that the field does not exist.
type metricsLayout struct {
	status      int // 64 bits: why clocks are reduced now
	residencies int // 32-bit counters, in the order of residencies
}

// residencies are the reasons for which MI300 and later reduce clocks.
var residencies = []string{"prochot", ThrottlePowerCap, "socket-thermal", "vr-thermal", "hbm-thermal"}

// statusReasons maps groups of bits of the status to reasons; see SMU_THROTTLER in
// amdgpu_smu.h.
var statusReasons = []struct {
	bits uint64
	name string
}{
	{0x0000_0000_0000_00ff, ThrottlePowerCap},
	{0x0000_0000_00ff_0000, "current-limit"},
	{0x0000_0fff_0000_0000, "thermal"},
	{0x0000_3000_0000_0000, "vr-thermal"},
	{0x0000_c000_0000_0000, "prochot"},
}

// addMetrics adds the throttling data of a gpu_metrics table. It does nothing if the layout
// is unknown.
func (s *GPUState) addMetrics(table []byte) {
	if len(table) < 4 {
		return
	}
	h := metricsHeader{size: binary.LittleEndian.Uint16(table), format: table[2], content: table[3]}
	layout, known := metricsLayouts[h]
	if !known || len(table) < int(h.size) {
		return
	}
	if layout.status > 0 {
		status := binary.LittleEndian.Uint64(table[layout.status:])
		for _, r := range statusReasons {
			// Firmware that does not report the status sets all of its bits.
			if status&r.bits != 0 && status != ^uint64(0) {
				s.Throttle = append(s.Throttle, r.name)
			}
		}
	}
	if layout.residencies > 0 {
		for i, name := range residencies {
			s.count(name, uint64(binary.LittleEndian.Uint32(table[layout.residencies+4*i:])))
		}
	}
}
