package rank

import "github.com/collectivex/collectivex/pkg/dl"

// Facts is what a rank reports about its device and library while it runs a case. All of it may be published.
type Facts struct {
	DeviceProduct string `json:"device_product"` // name the runtime reports
	DeviceArch    string `json:"device_arch"`    // sm_90, gfx942, x86-64
	// DeviceVariant distinguishes GPUs of one product of a platform; see inventory.GPU.Variant.
	DeviceVariant      string  `json:"device_variant,omitempty"`
	Framework          string  `json:"framework"` // cuda, hip, host, torch x.y
	AcceleratorRuntime string  `json:"accelerator_runtime"`
	Library            Library `json:"library"`
	// Beside lists other loaded libraries, such as one that multiplies matrices.
	Beside   []Library `json:"beside,omitempty"`
	CPUs     []int     `json:"cpus,omitempty"` // pinned to these
	NUMANode int       `json:"numa_node"`      // −1 if unknown
}

// LibraryOf describes a loaded library for facts.
func LibraryOf(kind, version string, f dl.File) Library {
	return Library{Kind: kind, Version: version, SOName: f.SOName(), BuildID: f.BuildID()}
}

// Library names the communication library that was actually loaded.
type Library struct {
	Kind    string `json:"kind"` // nccl, rccl, mscclpp, host, deepep, …
	Version string `json:"version"`
	SOName  string `json:"soname,omitempty"`
	BuildID string `json:"build_id,omitempty"`
}
