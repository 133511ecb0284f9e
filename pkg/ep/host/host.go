// Package host is the expert-parallel backend of a machine without accelerators: ranks are
// processes that write into and read from each other's memory. It moves and reduces real bytes
// in the two modes of GPU libraries: normal (one row per token and rank, unweighted sum) and
// low latency (one row per token and expert, weighted sum).
package host

import (
	"cmp"
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	accelhost "github.com/collectivex/collectivex/pkg/accel/host"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/hostrank"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
)

// lowLatencyCap is the maximum number of tokens of a rank in low-latency mode, as in GPU
// libraries.
const lowLatencyCap = 256

// Variant selects behaviours in which libraries differ. The zero Variant is the host backend.
type Variant struct {
	Reduction runner.Reduction // of normal mode; empty is runner.DomainFP32
	PlainCast bool             // fp8 is a plain cast, without scales
}

// Backend is the host backend as it is measured.
var Backend = backend.Backend{Name: "host", Open: map[plan.Family]rank.Opener{ep.Name: Open(Variant{})}}

// Open returns the opener of a variant's runners.
func Open(v Variant) rank.Opener {
	v.Reduction = cmp.Or(v.Reduction, runner.DomainFP32)
	return func(_ context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
		if s.World > maxWorld { // hostrank.Join refuses nodes that are not one host
			return nil, rank.Refused("the host backend supports at most %d ranks, not %d", maxWorld, s.World)
		}
		device, err := hostrank.Open(s, s.World)
		if err != nil {
			return nil, err
		}
		stream, err := device.NewStream()
		if err != nil {
			return nil, errors.Join(err, device.Close())
		}
		return runner.NewRunner(device, stream, newAdapter(device, s.Place, v), hostrank.Facts(device)), nil
	}
}

// adapter is the runner.Adapter of one rank.
type adapter struct {
	device  *accelhost.Device
	variant Variant
	place   rank.Place
	group   *hostrank.Group
	peers   []peer // by rank, including this one
	waiter  waiter

	d          runner.Description
	shape      shape
	own        areas
	private    []accel.Ptr // of the case, with own
	p          *runner.Problem
	layout     layout
	codes      []byte    // of this rank's tokens, in fp8
	scales     []float32 // beside codes
	sums       sums
	out        accel.Ptr
	handle     handle
	dispatched uint64
	combined   uint64
	fault      string // injected; empty in normal runs
}

var _ runner.CachedDispatcher = (*adapter)(nil)

func newAdapter(device *accelhost.Device, place rank.Place, v Variant) *adapter {
	return &adapter{device: device, variant: v, place: place}
}

func (a *adapter) Describe(c plan.Case) (runner.Description, error) {
	d := runner.Description{
		Mode: ep.Of(&c).Mode, Reduction: a.variant.Reduction, IndexType: numeric.Int64,
	}
	switch ep.Of(&c).Mode {
	case ep.ModeNormal:
		d.KernelGeneration = "host-shm"
		d.Receive, d.Combine = runner.TokenRank, runner.UnweightedRankSum
	case ep.ModeLowLatency:
		d.KernelGeneration = "host-shm-ll"
		d.Receive, d.Combine = runner.TokenExpert, runner.WeightedKernelSum
		d.FreshPair = true
		d.LadderCap = lowLatencyCap
	}
	err := d.SetPrecision("the host backend", c.Precision, "", !a.variant.PlainCast)
	return d, err
}

func (a *adapter) Bind(p *runner.Problem) error {
	a.p = p
	return nil
}

// Err implements runner.Adapter. It is always nil: an operation that cannot end returns an error.
func (a *adapter) Err() error { return nil }

// Close implements runner.Adapter. Peers that still wait learn that this rank has left; their
// mappings remain valid.
func (a *adapter) Close() error {
	if a.own.control != nil {
		a.own.control.gone.Store(1)
	}
	if a.group == nil {
		return nil
	}
	return a.group.Close()
}
