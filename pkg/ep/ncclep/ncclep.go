// Package ncclep is the expert-parallel backend over NCCL EP, NVIDIA's library, which it
// calls through its C ABI.
//
// Low-latency mode uses the library's low-latency algorithm. In its expert-major layout each
// row is one token for one expert, and combine applies the weight. In its rank-major layout
// each row is one token, with its experts and weights; senders write such rows into windows of the
// receivers, in bf16 inside a scale-up domain. Normal mode uses the high-throughput algorithm in the
// flat layout, whose rows are like rank-major ones, in windows too; unless the contract is
// cached-layout, its dispatch begins with the exchange of the routing.
package ncclep

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/nccl"
	"github.com/collectivex/collectivex/pkg/nccl/eplib"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/result"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// Limits of the library. Its own checks would end the process.
const (
	maxWorld        = 64
	maxRanksPerNode = 8
	leastArch       = 90
	// lowLatencyHidden and normalHidden must divide the hidden size.
	lowLatencyHidden = 256
	fp8Hidden        = 512 // in low latency
	normalHidden     = 8
	normalExperts    = 4 // must divide the experts of all ranks
	warpsPerSM       = 32
	maxExpertsPerSM  = 14
)

// Backend is the NCCL EP backend.
var Backend = backend.Backend{
	Name: "nccl-ep", Open: map[plan.Family]rank.Opener{ep.Name: Open},
	Needs: []*backend.Need{{Kind: "nccl-ep", Label: "NCCL EP", Find: findLibrary}},
}

// findLibrary finds NCCL EP, which requires NCCL.
func findLibrary(ctx context.Context) backend.Library {
	n, err := nccl.Open(nccl.NCCL)
	if err != nil {
		return backend.Library{Err: err}
	}
	l, err := eplib.Open(ctx, n)
	if err != nil {
		return backend.Library{Err: err}
	}
	found := backend.Opened(l.File, l.FullVersion())
	found.Drives = vocab.NVIDIA
	return found
}

// Open opens the backend for a rank. The rank has locked its OS thread and drives the
// device of its local rank.
func Open(ctx context.Context, s *rank.Session, _ plan.Case) (rank.Runner, error) {
	n, gpu, err := gpurank.OpenNCCL(nccl.NCCL, s)
	if err != nil {
		return nil, err
	}
	a := &adapter{gpu: gpu, device: accel.NewScope(gpu)}
	if err := a.open(ctx, s, n); err != nil {
		return nil, errors.Join(err, a.device.Close(), gpu.Close())
	}
	return gpu.Around(runner.NewRunner(gpu, a.stream, a, gpu.Facts(rank.LibraryOf("nccl-ep", a.lib.FullVersion(), a.lib.File)))), nil
}

// adapter is the runner.Adapter of one rank.
type adapter struct {
	gpu       *gpurank.GPU
	device    *accel.Scope
	stream    accel.Stream
	lib       *eplib.Library
	comm      *gpurank.Group
	d         runner.Description
	converter *converter // nil until a case needs it
	buffers   *buffers   // of a case
	calls     calls      // of a problem
}

func (a *adapter) open(ctx context.Context, s *rank.Session, n *nccl.Library) (err error) {
	if a.lib, err = eplib.Open(ctx, n); errors.Is(err, eplib.ErrOldNCCL) {
		return rank.Refused("%w", err)
	} else if err != nil {
		return gpurank.NCCLError(err)
	}
	if err = a.lib.SetSourceDirs(); err != nil {
		return err
	}
	if a.comm, err = gpurank.JoinGroup(ctx, s, n, a.gpu, "nccl-ep", nccl.Config{NVLinkCentric: true, OneGraph: true}); err != nil {
		return err
	}
	a.device.Defer(a.comm.Close)
	a.stream, err = a.gpu.NewStream() // owned by the caller
	return rank.Coded(result.ReasonDevice, err)
}

var (
	_ runner.CachedDispatcher = (*adapter)(nil)
	_ runner.Capturer         = (*adapter)(nil)
)

func (a *adapter) Describe(c plan.Case) (runner.Description, error) {
	d, err := describe(c, a.gpu.Info())
	d.LibraryVersion = a.lib.VersionString()
	return d, err
}

// describe returns the declaration for a case on a device, or refuses the case.
func describe(c plan.Case, info accel.Info) (runner.Description, error) {
	b := ep.Of(&c)
	d := runner.Description{
		Mode: b.Mode, Reduction: runner.DomainFP32,
		DispatchDType: "bf16", FP8Consume: runner.ConsumeNative, IndexType: numeric.Int64, Capturable: true,
	}
	hiddenUnit := lowLatencyHidden
	switch {
	case b.Mode == ep.ModeNormal:
		d.KernelGeneration, d.Receive, d.Combine = "nccl-ep-v02-ht-routed-zc-static", runner.TokenRank, runner.UnweightedRankSum
		if b.TimingMode == vocab.Graph { // only its graphs have a collective of NCCL in them; see nccl.Config.OneGraph
			d.KernelGeneration += "-gum1"
		}
		// Without the exchange of the routing, a faster peer's next dispatch overwrites rows in use.
		d.FreshPair = c.Contract == ep.ContractCachedLayout
		hiddenUnit = normalHidden
	case b.Layout == ep.RankMajor, b.Layout == ep.RankMajorWindow:
		d.KernelGeneration, d.Receive, d.Combine, d.Reduction = "nccl-ep-v02-ll-rm", runner.TokenRank, runner.UnweightedRankSum, runner.RankFP32
		if inWindows(c) {
			d.KernelGeneration += "-zc"
			d.FreshPair = true // a faster peer's next dispatch overwrites rows that are not combined yet
		}
	default:
		d.KernelGeneration, d.Receive, d.Combine = "nccl-ep-v02-ll-em", runner.TokenExpert, runner.WeightedKernelSum
	}
	switch {
	case c.Precision == "bf16":
	case c.Precision == "fp8" && b.Mode == ep.ModeLowLatency:
		d.KernelGeneration += "-fp8-ds-e3m4"
		// The library multiplies by 1/448, so its scales may differ from this codec's in the last
		// place; no value of the workload does.
		d.DispatchDType, d.StageWorks, d.Codec = "fp8-e4m3fn", true, runner.Codec{Format: numeric.E4M3FN, Block: true}
		hiddenUnit = fp8Hidden
	default:
		return d, rank.Refused("nccl-ep does not support %s in mode %s", c.Precision, b.Mode)
	}
	if err := archLimit(info.Arch); err != nil {
		return d, err
	}
	switch {
	case c.World > maxWorld || c.RanksPerNode > maxRanksPerNode:
		return d, rank.Refused("nccl-ep supports at most %d ranks and %d on a node, not %d and %d", maxWorld, maxRanksPerNode, c.World, c.RanksPerNode)
	case b.Hidden%hiddenUnit != 0:
		return d, rank.Refused("nccl-ep needs a hidden size that is a multiple of %d in mode %s, not %d", hiddenUnit, b.Mode, b.Hidden)
	case b.Layout == ep.RankMajorWindow && (c.Precision != "bf16" || c.Scope != vocab.ScopeUp):
		return d, rank.Refused("nccl-ep supports layout %s only in bf16 and scope scale-up, not in %s and scope %s", b.Layout, c.Precision, c.Scope)
	case b.Mode == ep.ModeLowLatency && c.Contract == ep.ContractCachedLayout:
		return d, rank.Refused("nccl-ep does not support timing contract cached-layout in mode low-latency")
	}
	return d, expertLimits(b.Mode, b.Experts, b.TopK, info.Multiproc)
}

// inWindows reports whether peers write the rows of a case into windows: of all layouts that can.
func inWindows(c plan.Case) bool {
	b := ep.Of(&c)
	return b.Mode == ep.ModeNormal || b.Layout == ep.RankMajorWindow || b.Layout == ep.RankMajor && c.Precision == "bf16" && c.Scope == vocab.ScopeUp
}

// archLimit refuses unsupported device architectures.
func archLimit(arch string) error {
	if n, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_")); err == nil && n < leastArch {
		return rank.Refused("nccl-ep needs a device of sm_%d or newer, not %s", leastArch, arch)
	}
	return nil
}

// expertLimits refuses numbers of experts that the kernels do not support. Normal mode needs a
// multiple of normalExperts, which it moves with one instruction. Low latency needs, on each
// multiprocessor that handles a share of the experts, a warp for every top-k slot of a token and one
// more.
func expertLimits(mode string, experts, topk, multiprocessors int) error {
	if mode == ep.ModeNormal {
		if experts%normalExperts != 0 {
			return rank.Refused("nccl-ep needs a multiple of %d experts in mode normal, not %d", normalExperts, experts)
		}
		return nil
	}
	multiprocessors = max(1, multiprocessors)
	perSM := (experts + multiprocessors - 1) / multiprocessors
	if perSM > maxExpertsPerSM {
		return rank.Refused("nccl-ep supports at most %d experts on %d multiprocessors, not %d", maxExpertsPerSM*multiprocessors, multiprocessors, experts)
	}
	if limit := warpsPerSM/perSM*perSM - 1; topk > limit {
		return rank.Refused("nccl-ep supports at most top-%d with %d experts on %d multiprocessors, not %d", limit, experts, multiprocessors, topk)
	}
	return nil
}

func (a *adapter) Prepare(ctx context.Context, _ *rank.Session, c plan.Case, need runner.Capacity) (err error) {
	if a.d, err = a.Describe(c); err != nil {
		return err
	}
	if err := expertLimits(a.d.Mode, need.Experts, ep.Of(&c).TopK, a.gpu.Info().Multiproc); err != nil {
		return err
	}
	if err := a.release(); err != nil {
		return err
	}
	if a.d.StageWorks && a.converter == nil {
		if a.converter, err = newConverter(ctx, a.device); err != nil {
			return rank.Coded(result.ReasonDevice, err)
		}
	}
	if a.buffers, err = a.newBuffers(c, need); err != nil {
		return err
	}
	a.comm.Watch(ctx)
	return nil
}

// release frees the buffers and calls of the last case.
func (a *adapter) release() (err error) {
	a.comm.Unwatch()
	a.calls.free()
	if a.buffers != nil {
		err = a.buffers.close()
	}
	a.calls, a.buffers = calls{}, nil
	return err
}

func (a *adapter) Err() error { return a.comm.Err() }

// Bind implements runner.Adapter. In low latency an update does no work: the library only records
// the address of the expert ids.
func (a *adapter) Bind(p *runner.Problem) error {
	a.calls.free()
	a.calls = a.buffers.bind(p)
	if a.buffers.layout == eplib.Flat {
		return nil
	}
	return a.enqueue(a.calls.update)
}

func (a *adapter) enqueue(c *eplib.Call) error { return gpurank.NCCLError(c.Enqueue(a.stream)) }

// handle identifies a dispatch. A rank has at most one at a time.
type handle struct{}

// Dispatch implements runner.Adapter. In normal mode it begins with the exchange of the
// routing.
func (a *adapter) Dispatch() (runner.Handle, error) {
	if a.buffers.layout == eplib.Flat {
		if err := a.enqueue(a.calls.update); err != nil {
			return nil, err
		}
	}
	return handle{}, a.enqueue(a.calls.dispatch[a.calls.p.Input])
}

func (a *adapter) DispatchCached(runner.Handle) (runner.Handle, error) {
	return handle{}, a.enqueue(a.calls.dispatch[a.calls.p.Input])
}

// Stage implements runner.Adapter. The staged value is the combine call for the rows, in place or
// converted.
func (a *adapter) Stage(runner.Handle) (runner.Staged, error) {
	if a.d.StageWorks {
		return a.calls.combineOthers, a.converter.convert(a.buffers)
	}
	return a.calls.combine, nil
}

func (a *adapter) StageRows(_ runner.Handle, fill func(to []runner.Rows) error) (runner.Staged, error) {
	to, err := a.buffers.replaced()
	if err != nil {
		return nil, err
	}
	return a.calls.combineOthers, fill(to)
}

func (a *adapter) Combine(_ runner.Handle, s runner.Staged) (accel.Ptr, error) {
	return a.buffers.out, a.enqueue(s.(*eplib.Call))
}

func (a *adapter) Align() error { return a.comm.Align(a.stream) }

func (a *adapter) Inspect(runner.Handle) (*runner.Received, error) { return a.buffers.inspect() }

func (a *adapter) Close() error { return errors.Join(a.release(), a.device.Close()) }
