package inventory_test

import (
	"encoding/binary"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/collectivex/collectivex/pkg/inventory/nvml"
)

// mockLibrary lets go-nvml's machines answer as NVML.
type mockLibrary struct{ gonvml.Interface }

var _ nvml.Library = mockLibrary{}

func (m mockLibrary) Init() nvml.Return     { return nvml.Return(m.Interface.Init()) }
func (m mockLibrary) Shutdown() nvml.Return { return nvml.Return(m.Interface.Shutdown()) }

func (m mockLibrary) DriverVersion() (string, nvml.Return) {
	v, ret := m.SystemGetDriverVersion()
	return v, nvml.Return(ret)
}

func (m mockLibrary) CUDAVersion() (int, nvml.Return) {
	v, ret := m.SystemGetCudaDriverVersion()
	return v, nvml.Return(ret)
}

func (m mockLibrary) Count() (int, nvml.Return) {
	v, ret := m.DeviceGetCount()
	return v, nvml.Return(ret)
}

func (m mockLibrary) Device(index int) (nvml.Device, nvml.Return) {
	d, ret := m.DeviceGetHandleByIndex(index)
	return mockDevice{d}, nvml.Return(ret)
}

func (m mockLibrary) DeviceAt(id string) (nvml.Device, nvml.Return) {
	count, _ := m.DeviceGetCount()
	for i := range count {
		d, ret := m.DeviceGetHandleByIndex(i)
		if p, _ := d.GetPciInfo(); ret == gonvml.SUCCESS && strings.HasSuffix(strings.ToLower(busID(p)), id) {
			return mockDevice{d}, nvml.Success
		}
	}
	return nil, nvml.Return(gonvml.ERROR_NOT_FOUND)
}

type mockDevice struct{ gonvml.Device }

func (d mockDevice) Name() (string, nvml.Return) {
	v, ret := d.GetName()
	return v, nvml.Return(ret)
}

func busID(p gonvml.PciInfo) string {
	var text []byte
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		text = append(text, byte(c))
	}
	return string(text)
}

func (d mockDevice) BusID() (string, nvml.Return) {
	p, ret := d.GetPciInfo()
	return busID(p), nvml.Return(ret)
}

func (d mockDevice) ComputeCapability() (int, int, nvml.Return) {
	major, minor, ret := d.GetCudaComputeCapability()
	return major, minor, nvml.Return(ret)
}

func (d mockDevice) Memory() (total, used int64, ret nvml.Return) {
	m, r := d.GetMemoryInfo()
	return int64(m.Total), int64(m.Used), nvml.Return(r)
}

func (d mockDevice) MaxPCIeGeneration() (int, nvml.Return) {
	v, ret := d.GetMaxPcieLinkGeneration()
	return v, nvml.Return(ret)
}

func (d mockDevice) MaxPCIeWidth() (int, nvml.Return) {
	v, ret := d.GetMaxPcieLinkWidth()
	return v, nvml.Return(ret)
}

func (d mockDevice) ECC() (bool, nvml.Return) {
	v, _, ret := d.GetEccMode()
	return v == gonvml.FEATURE_ENABLED, nvml.Return(ret)
}

func (d mockDevice) MIG() (bool, nvml.Return) {
	v, _, ret := d.GetMigMode()
	return v == gonvml.DEVICE_MIG_ENABLE, nvml.Return(ret)
}

func number(v uint32, ret gonvml.Return) (int, nvml.Return) { return int(v), nvml.Return(ret) }

func (d mockDevice) PowerLimitMilliwatts() (int, nvml.Return) {
	return number(d.GetEnforcedPowerLimit())
}
func (d mockDevice) PowerMilliwatts() (int, nvml.Return) { return number(d.GetPowerUsage()) }

func (d mockDevice) MaxClockMHz(c nvml.Clock) (int, nvml.Return) {
	return number(d.GetMaxClockInfo(gonvml.ClockType(c)))
}

func (d mockDevice) ClockMHz(c nvml.Clock) (int, nvml.Return) {
	return number(d.GetClockInfo(gonvml.ClockType(c)))
}

func (d mockDevice) TemperatureC() (int, nvml.Return) {
	return number(d.GetTemperature(gonvml.TEMPERATURE_GPU))
}

func (d mockDevice) ClockReasons() (uint64, nvml.Return) {
	v, ret := d.GetCurrentClocksThrottleReasons()
	return v, nvml.Return(ret)
}

// HeldNanos is of one reason alone, as of an older driver.
func (d mockDevice) HeldNanos() (map[uint64]uint64, nvml.Return) {
	v, ret := d.GetViolationStatus(gonvml.PERF_POLICY_POWER)
	return map[uint64]uint64{nvml.ReasonSWPowerCap: v.ViolationTime}, nvml.Return(ret)
}

func (d mockDevice) ECCErrors(uncorrected bool) (uint64, nvml.Return) {
	kind := gonvml.MEMORY_ERROR_TYPE_CORRECTED
	if uncorrected {
		kind = gonvml.MEMORY_ERROR_TYPE_UNCORRECTED
	}
	v, ret := d.GetTotalEccErrors(kind, gonvml.VOLATILE_ECC)
	return v, nvml.Return(ret)
}

// The machines of go-nvml run no processes.
func (d mockDevice) Processes() ([]int, nvml.Return) { return nil, nvml.Success }
func (d mockDevice) BusyPercent() (int, nvml.Return) { return 0, nvml.Success }

func (d mockDevice) MemoryBusBits() (int, nvml.Return) { return number(d.GetMemoryBusWidth()) }

// NVLinkMBps is field 164 of NVML.
func (d mockDevice) NVLinkMBps(link int) (int, nvml.Return) {
	values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_NVLINK_GET_SPEED, ScopeId: uint32(link)}}
	ret := d.GetFieldValues(values)
	return int(binary.LittleEndian.Uint32(values[0].Value[:])), nvml.Return(ret)
}

func (d mockDevice) NVLinkActive(link int) (bool, nvml.Return) {
	v, ret := d.GetNvLinkState(link)
	return v == gonvml.FEATURE_ENABLED, nvml.Return(ret)
}

func (d mockDevice) NVLinkRemoteBusID(link int) (string, nvml.Return) {
	p, ret := d.GetNvLinkRemotePciInfo(link)
	return busID(p), nvml.Return(ret)
}
