package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/accel/cuda"
	"github.com/collectivex/collectivex/pkg/accel/gpu"
	"github.com/collectivex/collectivex/pkg/accel/hip"
	"github.com/collectivex/collectivex/pkg/collective"
	"github.com/collectivex/collectivex/pkg/collective/device"
	"github.com/collectivex/collectivex/pkg/dl"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/watch"
)

// drivers are of the platforms that libraries drive.
var drivers = map[string]func() (*gpu.Driver, error){"cuda": cuda.Load, "hip": hip.Load}

// Open returns the rank.Opener of the backend over a kind of library. Its ranks
// drive the device of their local rank and have locked their OS thread.
func Open(kind nccl.Kind) rank.Opener {
	return func(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		o := opened{ranksPerID: ranksPerID}
		if err := o.open(ctx, kind, s); err != nil {
			return nil, errors.Join(err, o.close())
		}
		r, err := collective.NewRunner(collective.Parts{
			Data: o.data, Comm: o.comm, Device: o.device, Facts: o.facts(),
			Another: func(ctx context.Context, s *rank.Session) (collective.Comm, error) { return o.join(ctx, s, "another") },
		})
		if err != nil {
			return nil, err
		}
		return o.watch.Around(r), nil
	}
}

// opened is what a runner is made of, as far as it has come.
type opened struct {
	library *nccl.Library
	watch   *watch.Watch
	device  *gpu.Device
	data    collective.Data
	comm    *comm

	ranksPerID int
}

func (o *opened) open(ctx context.Context, kind nccl.Kind, s *rank.Session) error {
	var err error
	if o.library, err = nccl.Open(kind); err != nil {
		return missing(err)
	}
	driver, err := drivers[o.library.Platform()]()
	if err != nil {
		return missing(err)
	}
	if err := o.openDevice(driver, s); err != nil {
		return err
	}
	if o.data, err = device.NewData(ctx, o.device); err != nil {
		return coded(result.ReasonDevice, err)
	}
	o.comm, err = o.join(ctx, s, "first")
	return err
}

// join makes a communicator of all ranks; name tells those of one session apart.
func (o *opened) join(ctx context.Context, s *rank.Session, name string) (*comm, error) {
	ids, err := o.shareIDs(ctx, s, name)
	if err != nil {
		return nil, err
	}
	c, err := o.library.Init(ids, s.Rank, s.World, nccl.Config{NVLinkCentric: true})
	if err != nil {
		return nil, libraryError(err)
	}
	k, err := newComm(c, o.device)
	return k, libraryError(err)
}

// openDevice opens the device of the rank; there have to be as many as ranks.
func (o *opened) openDevice(driver *gpu.Driver, s *rank.Session) error {
	count, err := driver.Count()
	if err != nil {
		return coded(result.ReasonDevice, err)
	}
	if s.LocalRank >= count {
		return &rank.Error{
			Code: result.ReasonEnvironment.With("%d devices for local rank %d", count, s.LocalRank),
			Err:  fmt.Errorf("rank %d wants device %d, and this process sees %d", s.Rank, s.LocalRank, count),
		}
	}
	info, err := driver.Describe(s.LocalRank)
	if err != nil {
		return coded(result.ReasonDevice, err)
	}
	o.watch = watch.Start(info.PCIBusID)
	o.device, err = driver.Open(s.LocalRank, "")
	return coded(result.ReasonDevice, err)
}

// ranksPerID is how many ranks meet at one unique id at most: one process takes
// in all that share an id, one by one, which tells at hundreds of ranks. Others
// have chosen between 32 and PyTorch's 128.
const ranksPerID = 64

// roots are the ranks that make the ids, in the order in which the library deals
// its ranks out to them: in equal runs of ranks, the first ones longer by one.
func roots(world, ids int) []int {
	out := make([]int, ids)
	for i := range out {
		out[i] = i*(world/ids) + min(i, world%ids)
	}
	return out
}

// shareIDs makes the ids in the ranks that are their roots and gives them to all.
func (o *opened) shareIDs(ctx context.Context, s *rank.Session, name string) ([]nccl.ID, error) {
	count := 1
	if o.library.Has("ncclCommInitRankScalable") && o.library.Kind != nccl.MSCCLPP { // which has it and fails
		count = (s.World + o.ranksPerID - 1) / o.ranksPerID
	}
	key := func(i int) string { return fmt.Sprintf("%s/nccl-id-%s-%d", s.Scope, name, i) }
	if i := slices.Index(roots(s.World, count), s.Rank); i >= 0 {
		id, err := o.library.NewID()
		if err != nil {
			return nil, libraryError(err)
		}
		if err := s.Store.Put(ctx, key(i), id[:]); err != nil {
			return nil, err
		}
	}
	ids := make([]nccl.ID, count)
	for i := range ids {
		raw, err := s.Store.Get(ctx, key(i))
		if err != nil {
			return nil, err
		}
		if len(raw) != nccl.IDBytes {
			return nil, fmt.Errorf("unique id of %d bytes", len(raw))
		}
		ids[i] = nccl.ID(raw)
	}
	return ids, nil
}

// missing gives the error of a library that cannot be used its code.
func missing(err error) error {
	switch {
	case errors.Is(err, dl.ErrNoSymbol):
		return coded(result.ReasonNoSymbol, err)
	case errors.Is(err, dl.ErrNoLibrary), errors.Is(err, nccl.ErrNotKind):
		return coded(result.ReasonNoLibrary, err)
	}
	return coded(result.ReasonDevice, err)
}

func (o *opened) facts() rank.Facts {
	info := o.device.Info()
	return rank.Facts{
		DeviceProduct: info.Product, DeviceArch: info.Arch,
		Framework: o.library.Platform(), AcceleratorRuntime: info.Runtime,
		Library: rank.Library{
			Kind: string(o.library.Kind), Version: o.library.VersionString(),
			SOName: o.library.SOName(), BuildID: o.library.BuildID(),
		},
		CPUs: o.watch.CPUs, NUMANode: o.watch.NUMANode,
	}
}

// close gives back what was opened before an error. There is no communicator
// then: making it is the last step.
func (o *opened) close() error {
	var err error
	if o.data != nil {
		err = o.data.Close()
	}
	if o.device != nil {
		err = errors.Join(err, o.device.Close())
	}
	if o.watch != nil {
		o.watch.Close()
	}
	return err
}
