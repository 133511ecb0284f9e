package inventory

// State is the state of the devices and the fabric of a machine.
type State struct {
	GPUs   []GPUState `json:"gpus,omitempty"`
	Fabric *Fabric    `json:"fabric,omitempty"` // of RDMA adapters; nil if there are none
}

// GPUState is the state of GPU Index of a vendor. Zero clocks, temperature, power
// and memory are unknown.
type GPUState struct {
	Index        int    `json:"index"`
	Vendor       string `json:"vendor"`
	SMMHz        int    `json:"sm_mhz"`
	MemMHz       int    `json:"mem_mhz"`
	TemperatureC int    `json:"temperature_c"`
	PowerW       int    `json:"power_w"`
	// Throttle lists the reasons for which clocks are below their maximum, except idle.
	Throttle []string `json:"throttle,omitempty"`
	// ThrottleCounters are, by reason, how long clocks were reduced since the driver started,
	// in nanoseconds on NVIDIA and in cycles of the power firmware on AMD. Reasons that the
	// driver does not count are missing.
	ThrottleCounters map[string]uint64 `json:"throttle_counters,omitempty"`
	Idle             bool              `json:"idle,omitempty"` // clocks are low because nothing runs
	MemoryUsedBytes  int64             `json:"memory_used_bytes,omitempty"`
	// ECC errors since the driver started.
	ECCCorrected   uint64 `json:"ecc_corrected"`
	ECCUncorrected uint64 `json:"ecc_uncorrected"`
}

// Clock is the SM clock of a busy device.
type Clock struct {
	MHz int
	// CappedBy lists the driver's reasons, other than settings, for a clock below cappedBelow of its maximum. It is
	// empty for a higher clock.
	CappedBy []string
}

// cappedBelow is the fraction of the maximum clock below which a clock can be capped.
const cappedBelow = 0.985

// ThrottlePowerCap is the reason for a device at its power limit, which is normal for a
// busy device.
const ThrottlePowerCap = "sw-power-cap"

func (s *GPUState) count(reason string, n uint64) {
	if s.ThrottleCounters == nil {
		s.ThrottleCounters = map[string]uint64{}
	}
	s.ThrottleCounters[reason] = n
}

// Fabric is the sum of the counters of all RDMA ports.
type Fabric struct {
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
	// WaitTicks is the number of ticks in which a port had data but no credit to send it.
	WaitTicks    uint64 `json:"wait_ticks"`
	SymbolErrors uint64 `json:"symbol_errors"`
	LinkDowned   uint64 `json:"link_downed"`
}

// State reads the state of all devices.
func (r *Reader) State() State {
	var s State
	r.withNVML(&Machine{}, func(devices []nvmlDevice) {
		for i, d := range devices {
			s.GPUs = append(s.GPUs, nvidiaState(i, d))
		}
	})
	for i, n := range r.kfd() {
		s.GPUs = append(s.GPUs, r.amdState(i, n))
	}
	s.Fabric = r.Fabric()
	return s
}

func (r *Reader) amdState(index int, n kfdNode) GPUState {
	s := GPUState{Index: index, Vendor: AMD}
	s.SMMHz, s.Idle = currentClock(r.root.Text(n.card, "pp_dpm_sclk"))
	s.MemMHz, _ = currentClock(r.root.Text(n.card, "pp_dpm_mclk"))
	s.MemoryUsedBytes, _ = r.root.Number(n.card, "mem_info_vram_used")
	s.addMetrics(r.root.Bytes(n.card, "gpu_metrics"))
	sensors := r.hwmon(n.card)
	millicelsius, _ := r.root.Number(sensors, "temp1_input")
	s.TemperatureC = int(millicelsius / 1000)
	for _, name := range []string{"power1_average", "power1_input"} {
		if microwatts, ok := r.root.Number(sensors, name); ok && s.PowerW == 0 {
			s.PowerW = int(microwatts / 1_000_000)
		}
	}
	// Each block that counts errors has ue and ce: "ue: 0\nce: 3".
	for _, name := range r.root.List(n.card, "ras") {
		errors := r.root.Counts(":", n.card, "ras", name)
		s.ECCUncorrected += errors["ue"]
		s.ECCCorrected += errors["ce"]
	}
	return s
}

// Fabric returns the sums of the counters of all RDMA ports, or nil if there are none. The
// kernel counts data in words of 4 bytes.
func (r *Reader) Fabric() *Fabric {
	var f *Fabric
	for _, p := range r.ports() {
		if f == nil {
			f = &Fabric{}
		}
		f.SentBytes += 4 * p.counter("port_xmit_data")
		f.ReceivedBytes += 4 * p.counter("port_rcv_data")
		f.WaitTicks += p.counter("port_xmit_wait")
		f.SymbolErrors += p.counter("symbol_error")
		f.LinkDowned += p.counter("link_downed")
	}
	return f
}
