package gpurank

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/inventory"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// OpenNCCL opens the library of a kind and then, with the driver of the library's
// platform, the device of the rank's local rank; see Open. The caller has locked its OS
// thread, on which the device is current until Close. Errors have a reason code.
func OpenNCCL(kind nccl.Kind, s *rank.Session) (*nccl.Library, *GPU, error) {
	l, err := nccl.Open(kind)
	if err != nil {
		return nil, nil, NCCLError(err)
	}
	g, err := Open(l.Platform(), s)
	return l, g, err
}

// OpenAnyNCCL is OpenNCCL for NCCL, or for RCCL if NCCL or CUDA's driver is not installed.
func OpenAnyNCCL(s *rank.Session) (l *nccl.Library, g *GPU, err error) {
	err = either(
		func() error { l, g, err = OpenNCCL(nccl.NCCL, s); return err },
		func() error { l, g, err = OpenNCCL(nccl.RCCL, s); return err },
	)
	return l, g, err
}

// LibraryOf returns l as named in the facts of a rank.
func LibraryOf(l *nccl.Library) rank.Library {
	return rank.LibraryOf(string(l.Kind), l.VersionString(), l.File)
}

// NCCLError adds the reason code to the error of an NCCL library. The reason has the failed call and its result,
// if any. The error text also has the library's own text, for the log.
func NCCLError(err error) error {
	var e *nccl.Error
	if !errors.As(err, &e) {
		return rank.Coded(reason(err, result.ReasonLibrary), err)
	}
	return &rank.Error{Reason: result.ReasonLibrary.With("%s %s", e.Call, e.Result), Err: nccl.Explain(err)}
}

// ranksPerID is the maximum number of ranks that share one unique id. One process accepts the connections of all
// ranks of an id one by one, which takes noticeable time at hundreds of ranks. Other programs use between 32 and
// 128 (PyTorch).
const ranksPerID = 64

// Join makes a communicator of all ranks on the current device. All ranks of the
// session call it; name distinguishes the communicators of a session.
func Join(ctx context.Context, s *rank.Session, l *nccl.Library, name string, config nccl.Config) (*nccl.Communicator, error) {
	return join(ctx, s, l, name, config, ranksPerID)
}

func join(ctx context.Context, s *rank.Session, l *nccl.Library, name string, config nccl.Config, perID int) (*nccl.Communicator, error) {
	count := 1
	if l.Has("ncclCommInitRankScalable") && l.Kind != nccl.MSCCLPP { // in MSCCL++ the function exists but fails
		count = (s.World + perID - 1) / perID
	}
	ids, err := shareIDs(ctx, s, l, name, count)
	if err != nil {
		return nil, err
	}
	c, err := l.Init(ids, s.Rank, s.World, config)
	if err != nil {
		return nil, NCCLError(err)
	}
	return c, nil
}

// roots returns the ranks that create the ids. The library assigns to each id a range of successive ranks, of
// which the first is the root. The ranges are equal, or the first ones are longer by one.
func roots(world, ids int) []int {
	out := make([]int, ids)
	for i := range out {
		out[i] = i*(world/ids) + min(i, world%ids)
	}
	return out
}

// shareIDs creates the ids in their root ranks and distributes them to all.
func shareIDs(ctx context.Context, s *rank.Session, l *nccl.Library, name string, count int) ([]nccl.ID, error) {
	key := func(i int) string { return fmt.Sprintf("%s/nccl-id-%s-%d", s.Scope, name, i) }
	if i := slices.Index(roots(s.World, count), s.Rank); i >= 0 {
		id, err := l.NewID()
		if err != nil {
			return nil, NCCLError(err)
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
			return nil, fmt.Errorf("unique id of %d bytes, want %d", len(raw), nccl.IDBytes)
		}
		ids[i] = nccl.ID(raw)
	}
	return ids, nil
}

// Needs holds, for each kind of library, the need of the backends that use it.
var Needs = map[nccl.Kind]*backend.Need{
	nccl.NCCL:    needOf(nccl.NCCL, "NCCL", inventory.NVIDIA),
	nccl.RCCL:    needOf(nccl.RCCL, "RCCL", inventory.AMD),
	nccl.MSCCLPP: needOf(nccl.MSCCLPP, "MSCCL++", ""),
}

func needOf(kind nccl.Kind, label, vendor string) *backend.Need {
	return &backend.Need{Kind: string(kind), Label: label, Variable: kind.Variable(), Vendor: vendor, Find: func(context.Context) backend.Library {
		l, err := nccl.Open(kind)
		if err != nil {
			return backend.Library{Err: err}
		}
		found := backend.Opened(l.File, l.VersionString())
		found.Drives = map[string]string{"cuda": inventory.NVIDIA, "hip": inventory.AMD}[l.Platform()]
		found.PerCall = l.PerCall()
		return found
	}}
}
