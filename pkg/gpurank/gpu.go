// Package gpurank serves all ranks on GPUs. It restricts the rank to the device's NUMA node, opens the device,
// reports its facts and its state before and after each case, and joins the ranks through an NCCL library.
package gpurank

import (
	"errors"
	"fmt"

	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// drivers loads the driver of a platform; see nccl.Library.Platform.
var drivers = map[string]func() (*gpu.Driver, error){"cuda": cuda.Load, "hip": hip.Load}

// GPU is the device of this rank.
type GPU struct {
	*gpu.Device
	view
	platform string
}

// Open opens the device of the rank's local rank with the driver of a platform, cuda or hip. Before that it
// restricts this process to the processors of the device's NUMA node. The caller has locked its OS thread, on
// which the device is current until Close. Errors have a reason code.
func Open(platform string, s *rank.Session) (*GPU, error) {
	driver, err := drivers[platform]()
	if err != nil {
		return nil, coded(err)
	}
	count, err := driver.Count()
	if err != nil {
		return nil, coded(err)
	}
	if s.LocalRank >= count {
		return nil, &rank.Error{
			Reason: result.ReasonEnvironment.With("%d devices for local rank %d", count, s.LocalRank),
			Err:    fmt.Errorf("rank %d requires device %d, but %d devices are visible to this process", s.Rank, s.LocalRank, count),
		}
	}
	info, err := driver.Describe(s.LocalRank)
	if err != nil {
		return nil, coded(err)
	}
	g := &GPU{view: look(inventory.New(), info.PCIBusID), platform: platform}
	if g.Device, err = driver.Open(s.LocalRank, ""); err != nil {
		g.view.close()
		return nil, coded(err)
	}
	return g, nil
}

// OpenCUDA is Open on CUDA.
func OpenCUDA(s *rank.Session) (*GPU, error) { return Open("cuda", s) }

// OpenHIP is Open on HIP.
func OpenHIP(s *rank.Session) (*GPU, error) { return Open("hip", s) }

// OpenAny is Open on CUDA, or on HIP if CUDA's driver is not installed.
func OpenAny(s *rank.Session) (g *GPU, err error) {
	err = either(func() error { g, err = OpenCUDA(s); return err }, func() error { g, err = OpenHIP(s); return err })
	return g, err
}

// either calls first, or second if the library of first is not installed.
func either(first, second func() error) error {
	err := first()
	if coded, ok := errors.AsType[*rank.Error](err); !ok || coded.Reason.Code != result.ReasonNoLibrary {
		return err
	}
	if failed := second(); failed != nil {
		return errors.Join(err, failed)
	}
	return nil
}

// Close closes the device; see gpu.Device.Close.
func (g *GPU) Close() error {
	defer g.view.close()
	return g.Device.Close()
}

// Facts returns the facts of a rank that drives g with a library.
func (g *GPU) Facts(l rank.Library) rank.Facts {
	info := g.Info()
	device := inventory.GPU{Product: info.Product, Partition: g.about.Partition}
	return rank.Facts{
		DeviceProduct: info.Product, DeviceArch: info.Arch, DeviceVariant: device.Variant(),
		Framework: g.platform, AcceleratorRuntime: info.Runtime,
		Library: l, CPUs: g.cpus, NUMANode: g.numaNode,
	}
}

// DriverAs returns the driver as the library of a rank, under the given kind, for ranks that use no other
// library.
func (g *GPU) DriverAs(kind string) rank.Library {
	return rank.LibraryOf(kind, g.Info().Runtime, g.Driver().Library().File)
}

// coded adds the reason code to the error of a driver.
func coded(err error) error { return rank.Coded(reason(err, result.ReasonDevice), err) }

// reason returns the code for a library that cannot be used, or other for other errors.
func reason(err error, other result.Code) result.Code {
	switch {
	case errors.Is(err, dl.ErrNoSymbol):
		return result.ReasonNoSymbol
	case errors.Is(err, dl.ErrNoLibrary), errors.Is(err, nccl.ErrNotKind):
		return result.ReasonNoLibrary
	}
	return other
}
