// Package a2a is the expert-parallel backend for any GPU: the canonical token shuffle over
// point-to-point operations of NCCL or RCCL, with kernels around them. It needs no peer access
// and no expert-parallel library, and is the baseline that such a library has to beat.
//
// In normal mode, dispatch packs each token once for each rank that hosts one of its experts;
// the ranks exchange row counts, then the rows. Combine returns one row for each received row
// and sums the rows of each token. In low-latency mode every rank gathers the tokens of all
// ranks and keeps those routed to its experts; combine returns one float32 sum for each token.
// All sizes are then known in advance, so the host never waits and the operations can be captured.
package a2a

import (
	"context"
	"errors"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
)

// Limits of the kernels, as shuffle.cu has them.
const (
	maxTopK         = 32
	maxWorld        = 1024
	maxLocalExperts = 1024
	maxHidden       = 2048 * 8
	hiddenUnit      = 16 // columns: a row of fp8 moves 16 bytes at a time
)

// lowLatencyCap is the maximum number of tokens of a rank in low-latency mode, as in the libraries
// that have such a mode.
const lowLatencyCap = 256

// Backend is the all-to-all backend.
var Backend = backend.Backend{
	Name: "a2a", Open: map[plan.Family]rank.Opener{ep.Name: Open},
	Needs: []*backend.Need{gpurank.Needs[nccl.NCCL], gpurank.Needs[nccl.RCCL]}, Compiles: true,
}

// Open opens the backend for a rank: on NCCL, or on RCCL where NCCL or its driver is not
// installed. The rank has locked its OS thread and drives the device of its
// local rank.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	return open(ctx, s, allKernels())
}

// open opens the backend with the kernels of source.
func open(ctx context.Context, s *rank.Session, source string) (rank.Runner, error) {
	library, gpu, err := gpurank.OpenAnyNCCL(s)
	if err != nil {
		return nil, err
	}
	a := newAdapter(s, library, gpu)
	if err := a.open(ctx, s, library, source); err != nil {
		return nil, errors.Join(err, a.device.Close(), gpu.Close())
	}
	return gpu.Around(runner.NewRunner(gpu, a.stream, a, gpu.Facts(gpurank.LibraryOf(library)))), nil
}

// adapter is the runner.Adapter of one rank.
type adapter struct {
	end
	version string
	form    form
}

// end is the state that both modes share.
type end struct {
	device  *accel.Scope
	stream  accel.Stream
	comm    *gpurank.Group
	kernels kernels
	rank    int
	d       runner.Description
	p       *runner.Problem
	memory  *accel.Scope // freed after the case
}

// form implements dispatch and combine of one mode; see runner.Adapter.
type form interface {
	// dispatch sends the rows of the bound problem; cached reuses the layout of the previous
	// dispatch.
	dispatch(cached bool) error
	stage() (accel.Ptr, error)
	// staging returns where to put the experts' outputs, and how many rows arrived.
	staging() (to accel.Ptr, rows int)
	combine(staged accel.Ptr) (accel.Ptr, error)
	inspect() (*runner.Received, error)
}

var (
	_ runner.CachedDispatcher = (*adapter)(nil)
	_ runner.Capturer         = (*adapter)(nil)
)

func newAdapter(s *rank.Session, l *nccl.Library, g *gpurank.GPU) *adapter {
	return &adapter{end: end{device: accel.NewScope(g), memory: accel.NewScope(g), rank: s.Rank}, version: l.VersionString()}
}

// open compiles the kernels and joins the ranks. The stream is the caller's.
func (a *adapter) open(ctx context.Context, s *rank.Session, l *nccl.Library, source string) (err error) {
	if err := a.kernels.compile(ctx, a.device, source); err != nil {
		return rank.Coded(result.ReasonDevice, err)
	}
	if a.comm, err = gpurank.JoinGroup(ctx, s, l, a.device.Device, "a2a", nccl.Config{NVLinkCentric: true}); err != nil {
		return err
	}
	a.device.Defer(a.comm.Close)
	a.stream, err = a.device.Device.NewStream()
	return rank.Coded(result.ReasonDevice, err)
}

func (a *adapter) Describe(c plan.Case) (runner.Description, error) {
	d, err := describe(c, a.device.Info())
	d.LibraryVersion = a.version
	return d, err
}

// describe returns the declaration for a case on a device, or refuses the case.
func describe(c plan.Case, info accel.Info) (runner.Description, error) {
	b := ep.Of(&c)
	d := runner.Description{Mode: b.Mode, IndexType: numeric.Int64}
	switch b.Mode {
	case ep.ModeNormal:
		d.KernelGeneration = "a2a-shuffle"
		d.Receive, d.Combine, d.Reduction = runner.TokenRank, runner.UnweightedRankSum, runner.DomainFP32
	case ep.ModeLowLatency:
		d.KernelGeneration = "a2a-gather-ll"
		d.Receive, d.Combine, d.Reduction = runner.TokenExpert, runner.WeightedKernelSum, runner.RankPartialFP32
		d.LadderCap, d.Capturable = lowLatencyCap, true
	}
	switch {
	case b.TopK > maxTopK || c.World > maxWorld || b.Experts/c.World > maxLocalExperts || b.Hidden > maxHidden:
		return d, rank.Refused("a2a supports at most top-%d, %d ranks, %d experts per rank and hidden size %d, not %d, %d, %d and %d",
			maxTopK, maxWorld, maxLocalExperts, maxHidden, b.TopK, c.World, b.Experts/c.World, b.Hidden)
	case b.Hidden%hiddenUnit != 0:
		return d, rank.Refused("a2a needs a hidden size that is a multiple of %d, not %d", hiddenUnit, b.Hidden)
	}
	err := d.SetPrecision("a2a", c.Precision, info.Arch, true)
	return d, err
}

func (a *adapter) Prepare(ctx context.Context, _ *rank.Session, c plan.Case, need runner.Capacity) (err error) {
	a.comm.Unwatch()
	if a.d, err = a.Describe(c); err != nil {
		return err
	}
	if need.Experts/c.World > maxLocalExperts {
		return rank.Refused("a2a supports at most %d experts per rank, not %d", maxLocalExperts, need.Experts/c.World)
	}
	if err := a.memory.Close(); err != nil {
		return err
	}
	sizes := sizesOf(c, a.d, need)
	if ep.Of(&c).Mode == ep.ModeNormal {
		a.form, err = newShuffle(&a.end, sizes)
	} else {
		a.form, err = newGather(&a.end, sizes)
	}
	if err != nil {
		return err
	}
	a.comm.Watch(ctx)
	return nil
}

func (a *adapter) Err() error { return a.comm.Err() }

func (a *adapter) Bind(p *runner.Problem) error {
	a.p = p
	return nil
}

// handle identifies a dispatch. A rank has at most one at a time.
type handle struct{}

func (a *adapter) Dispatch() (runner.Handle, error) { return handle{}, a.form.dispatch(false) }

func (a *adapter) DispatchCached(runner.Handle) (runner.Handle, error) {
	return handle{}, a.form.dispatch(true)
}

func (a *adapter) Stage(runner.Handle) (runner.Staged, error) { return a.form.stage() }

func (a *adapter) StageRows(_ runner.Handle, fill func(to []runner.Rows) error) (runner.Staged, error) {
	to, rows := a.form.staging()
	return to, fill([]runner.Rows{{Count: rows, Values: to, Stride: int64(2 * a.p.Hidden)}})
}

func (a *adapter) Combine(_ runner.Handle, s runner.Staged) (accel.Ptr, error) {
	return a.form.combine(s.(accel.Ptr))
}

func (a *adapter) Align() error { return a.comm.Align(a.stream) }

func (a *adapter) Inspect(runner.Handle) (*runner.Received, error) { return a.form.inspect() }

func (a *adapter) Close() error {
	a.comm.Unwatch()
	return errors.Join(a.memory.Close(), a.device.Close())
}
