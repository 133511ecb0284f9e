// Package preflight says, before anything is planned, what this machine can run:
// which libraries are here, what each backend needs, and what of that is missing.
package preflight

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gemm/blaslt"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/hsa"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/laneenv"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/nccl/eplib"
	"github.com/collectivex/collectivex/pkg/nixl"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Kinds of libraries.
const (
	CUDA    = "cuda"
	NVRTC   = "nvrtc"
	HIP     = "hip"
	HIPRTC  = "hiprtc"
	NCCL    = "nccl"
	RCCL    = "rccl"
	MSCCLPP = "mscclpp"
	NCCLEP  = "nccl-ep"
	NIXL    = "nixl"
	HSA     = "hsa"

	CUBLASLt  = string(blaslt.CUBLASLt)
	HIPBLASLt = string(blaslt.HIPBLASLt)
)

// kinds in the order in which they are listed.
var kinds = []string{CUDA, NVRTC, CUBLASLt, NCCL, HIP, HIPRTC, HIPBLASLt, HSA, RCCL, MSCCLPP, NCCLEP, Python, Torch, DeepEPV2, DeepEPLegacy, FlashInfer, MoRI, UCCL, NIXL, Mooncake}

// Library is a library as it was found here, or why it was not. All but Path
// and Err may be published.
type Library struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	SOName  string `json:"soname,omitempty"`
	BuildID string `json:"build_id,omitempty"`
	Path    string `json:"-"` // file that was loaded
	Err     error  `json:"-"` // nil when it can be used
	// Held reports that the library is here, and that Err can be mended without installing it.
	Held bool `json:"-"`
	// Devices are those that a driver lets this process see, in its order.
	Devices []Device `json:"-"`
	// Lanes is what keeps a library that was found from lanes of transfers, by lane; nil for
	// nothing.
	Lanes map[string]error `json:"-"`
	// Drives is the vendor whose devices a communication library drives.
	Drives string `json:"-"`
}

// Device is a device in the words of its driver; of GPU that is vendor, product
// and architecture.
type Device struct {
	Address string // on the PCI bus
	// Unshared is why other processes cannot map its virtual memory; nil if they can.
	Unshared error
	inventory.GPU
}

// Found reports whether the library is here and can be used.
func (l *Library) Found() bool { return l.Err == nil }

// Libraries opens what this program knows, each in its own namespace, and says
// by kind what was found. A driver that sees no device counts as missing.
func Libraries() map[string]Library {
	libraries := throughPython()
	for kind, of := range map[string]nccl.Kind{NCCL: nccl.NCCL, RCCL: nccl.RCCL, MSCCLPP: nccl.MSCCLPP} {
		libraries[kind] = communication(of)
	}
	libraries[NCCLEP] = expertParallel()
	libraries[NIXL] = transferLibrary()
	libraries[CUDA], libraries[NVRTC] = vendor(cuda.Load, cuda.OpenCompiler)
	libraries[HIP], libraries[HIPRTC] = vendor(hip.Load, hip.OpenCompiler)
	libraries[HSA] = copyEngines() // of HIP, which has started it
	return named(libraries)
}

// Multipliers opens what multiplies matrices beside communication. Libraries leaves it out: it is
// large, and only cases that multiply matrices need it.
func Multipliers() map[string]Library {
	libraries := map[string]Library{}
	for _, kind := range []blaslt.Kind{blaslt.CUBLASLt, blaslt.HIPBLASLt} {
		if lib, version, err := blaslt.Find(kind); err != nil {
			libraries[string(kind)] = Library{Err: err}
		} else {
			libraries[string(kind)] = opened(lib, version)
		}
	}
	return named(libraries)
}

// named gives libraries their kinds.
func named(libraries map[string]Library) map[string]Library {
	for kind, l := range libraries {
		l.Kind = kind
		libraries[kind] = l
	}
	return libraries
}

func opened(lib *dl.Library, version string) Library {
	return Library{Version: version, SOName: lib.SOName(), BuildID: lib.BuildID(), Path: lib.Path()}
}

// vendor finds a driver and the compiler that suits it, or any compiler where
// there is no driver.
func vendor(load func() (*gpu.Driver, error), open func() (*gpu.Compiler, error)) (driver, compiler Library) {
	if d, err := load(); err != nil {
		driver = Library{Err: err}
	} else {
		driver = opened(d.Library(), d.Version())
		driver.Devices, driver.Err = visible(d)
		open = d.Compiler
	}
	c, err := open()
	if err != nil {
		return driver, Library{Err: err}
	}
	return driver, opened(c.Library(), c.Version())
}

// visible is what a driver says of the devices that this process sees.
func visible(d *gpu.Driver) ([]Device, error) {
	count, err := d.Count()
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, fmt.Errorf("%s sees no device: %s", d.Version(), d.NoDevice())
	}
	devices := make([]Device, count)
	for i := range devices {
		info, err := d.Describe(i)
		if err != nil {
			return nil, err
		}
		arch, _, _ := strings.Cut(info.Arch, ":") // gfx942:sramecc+:xnack-, as the compiler wants it
		devices[i] = Device{info.PCIBusID, d.SharesVirtual(i), inventory.GPU{Index: i, Vendor: info.Vendor, Product: info.Product, Arch: arch, NUMANode: -1}}
	}
	return devices, nil
}

func communication(kind nccl.Kind) Library {
	n, err := nccl.Open(kind)
	if err != nil {
		return Library{Err: err}
	}
	return Library{
		Version: n.VersionString(), SOName: n.SOName(), BuildID: n.BuildID(), Path: n.Path(),
		Drives: map[string]string{"cuda": inventory.NVIDIA, "hip": inventory.AMD}[n.Platform()],
	}
}

// expertParallel finds NCCL EP, which works on NCCL.
func expertParallel() Library {
	n, err := nccl.Open(nccl.NCCL)
	if err != nil {
		return Library{Err: err}
	}
	l, err := eplib.Open(n)
	if err != nil {
		return Library{Err: err}
	}
	return Library{Version: l.FullVersion(), SOName: l.SOName(), BuildID: l.BuildID(), Path: l.Path(), Drives: inventory.NVIDIA}
}

// transferLibrary finds NIXL, whose transports the environment must leave to the ranks.
func transferLibrary() Library {
	ctx, cancel := context.WithTimeout(context.Background(), pythonTimeout)
	defer cancel()
	n, err := nixl.Open(ctx)
	if err != nil {
		return Library{Err: err}
	}
	err = laneenv.UCX.Check()
	return Library{
		Version: n.Version(), SOName: n.SOName(), BuildID: n.BuildID(), Path: n.Path(), Err: err, Held: err != nil,
		Lanes: map[string]error{
			vocab.LaneProcessVM: n.ModuleError("cma"), vocab.LanePeer: n.DeviceError(), vocab.LaneMNNVL: n.DeviceError(), vocab.LaneRDMA: cmp.Or(n.DeviceError(), n.ModuleError("ib")),
		},
	}
}

// copyEngines finds the HSA runtime, which has to start.
func copyEngines() Library {
	r, err := hsa.Open()
	if err != nil {
		return Library{Err: err}
	}
	return Library{Version: r.Version(), SOName: r.Library().SOName(), BuildID: r.Library().BuildID(), Path: r.Library().Path(), Err: r.Close()}
}
