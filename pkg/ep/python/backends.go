package python

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/collectivex/collectivex/pkg/accel"
	"github.com/collectivex/collectivex/pkg/backend"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/ep/runner"
	"github.com/collectivex/collectivex/pkg/gpurank"
	"github.com/collectivex/collectivex/pkg/numeric"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/pyrank"
	"github.com/collectivex/collectivex/pkg/rank"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// library describes a backend: what it needs, and how its adapter implements the contract.
type library struct {
	name  string                                    // of the backend in matrix/backends.yaml, and the kind of its library in documents
	needs []*backend.Need                           // besides torch
	open  func(*rank.Session) (*gpurank.GPU, error) // the GPU of a rank
	store bool                                      // its adapter opens a TCPStore of torch
	modes map[string]mode
	// across is what it has across scale-up domains instead of the modes of these names.
	across map[string]mode
	limits limits
}

// mode describes a library in one mode.
type mode struct {
	module     string // file in adapters, without .py
	generation string // of its kernels
	kernel     string // the library's name of them, where it has several for a mode
	older      *mode  // with a library that lacks kernel; nil: the case is refused
	unsynced   bool   // in decode, dispatch does not wait for the number of rows to arrive
	receive    runner.Layout
	combine    runner.Semantics
	reduction  runner.Reduction
	treeBefore []int // version of the library before which reduction is topk-slot-tree
	freshPair  bool
	stages     bool // bf16 rows are copied too, into memory of the library
	cap        int  // maximum tokens of a rank; 0: no limit
	capacity   int  // minimum tokens that its buffers hold; 0: the ladder's maximum
	cast       cast // of fp8
	globalIDs  bool // expert ids are int32; received ones are global and include other ranks' experts
	cached     bool // supports dispatch with a cached layout
	graphs     bool // can be captured into graphs: nothing waits for the host
	tunable    bool // follows the tuning of a case
	limits     limits
}

// cast describes who casts bf16 rows to fp8, and how.
type cast struct {
	inKernel bool // the library; else the adapter, before each dispatch
	plain    bool // without scales
	suffix   string
}

// limits are the limits of a library. The zero value of a field means no limit.
type limits struct {
	hidden      []int // sizes that its kernels are built for
	hiddenUnit  int
	fp8Unit     int
	topk        int
	worlds      []int // ranks that its kernels are built for
	oneNode     bool
	transport   string // required scale-up transport
	maxWorld    int
	oneDomain   bool
	arch        int // minimum N of sm_N
	archs       []string
	rowsUnit    int // must divide world × capacity
	powerOfTwo  bool
	gpusPerNode int
}

// Limits of DeepEP's Buffer: SWITCH_HIDDEN and SWITCH_RANKS of csrc/kernels/launch.cuh, and
// kNumMaxTopK of the low-latency kernels. UCCL's lacks a hidden size.
var (
	deepepHidden   = []int{2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192}
	ucclHidden     = []int{2048, 2560, 4096, 5120, 6144, 7168, 8192}
	bufferWorlds   = []int{2, 4, 8}
	ucclAcross     = []int{16, 24, 32, 64} // get_dispatch_config has more, which were never brought up
	lowLatencyTopK = 11
)

// lowLatencyCap is the maximum number of tokens of a rank in low-latency mode; buffers always hold
// that many.
const lowLatencyCap = 256

func bufferNormal(generation string) mode {
	return mode{
		module: "buffer", generation: generation, receive: runner.TokenRank, combine: runner.UnweightedRankSum, reduction: runner.DomainFP32,
		cached: true, limits: limits{worlds: bufferWorlds, oneNode: true},
	}
}

func bufferLowLatency(generation string, graphs bool) mode {
	return mode{
		module: "buffer", generation: generation, receive: runner.TokenExpert, combine: runner.WeightedKernelSum, reduction: runner.DomainFP32,
		graphs: graphs, freshPair: true, cap: lowLatencyCap, capacity: lowLatencyCap, cast: cast{inKernel: true},
		limits: limits{hidden: deepepHidden, fp8Unit: 512, topk: lowLatencyTopK, rowsUnit: 4},
	}
}

// libraries are in the order in which descriptions of machines list them.
var libraries = []library{
	{
		name:  "deepep-v2",
		needs: []*backend.Need{deepEP("deepep-v2", "DeepEP", "DeepEP V2")},
		open:  gpurank.OpenCUDA,
		modes: map[string]mode{
			ep.ModeNormal: {
				module: "elastic", generation: "v2-elastic-buffer",
				receive: runner.TokenRank, combine: runner.UnweightedRankSum, reduction: runner.DomainFP32,
				cached: true, unsynced: true, graphs: true, tunable: true, limits: limits{topk: 32},
			},
			ep.ModeLowLatency: bufferLowLatency("legacy-buffer-ll", true),
		},
		limits: limits{arch: 90, hiddenUnit: 128},
	},
	{
		name:  "deepep-legacy",
		needs: []*backend.Need{deepEP("deepep-legacy", "DeepEP", "DeepEP 1.2, before ElasticBuffer")},
		open:  gpurank.OpenCUDA,
		modes: map[string]mode{
			ep.ModeNormal:     bufferNormal("legacy-buffer"),
			ep.ModeLowLatency: bufferLowLatency("legacy-buffer-ll", true),
		},
		limits: limits{arch: 90, hiddenUnit: 128},
	},
	{
		name: "flashinfer-ep",
		needs: []*backend.Need{{Kind: "flashinfer-ep", Label: "FlashInfer", Module: &backend.Module{
			Name: "flashinfer", Distributions: []string{"flashinfer-python", "flashinfer"}, Install: "FlashInfer (flashinfer-python)",
		}}},
		open: gpurank.OpenCUDA,
		modes: map[string]mode{
			ep.ModeNormal: {
				module: "flashinfer", generation: "flashinfer-mnnvl-one-sided",
				receive: runner.TokenRank, combine: runner.UnweightedRankSum, reduction: runner.DomainFP32, treeBefore: []int{0, 6, 16},
				graphs: true, freshPair: true, stages: true, globalIDs: true, cast: cast{suffix: "-blockwise-offpath"},
			},
		},
		limits: limits{arch: 90, hiddenUnit: 128, topk: 22, maxWorld: 64, transport: "mnnvl", oneDomain: true},
	},
	{
		name:  "mori",
		needs: []*backend.Need{pyrank.MoRI},
		open:  gpurank.OpenHIP,
		modes: map[string]mode{
			ep.ModeNormal:     moriMode("IntraNode", "intranode", limits{oneNode: true}),
			ep.ModeLowLatency: moriLowLatency(),
		},
		across: map[string]mode{ep.ModeNormal: moriMode("InterNodeV1", "inter-node-v1", limits{})},
		limits: limits{archs: []string{"gfx942", "gfx950"}, powerOfTwo: true, gpusPerNode: 8, hiddenUnit: 128, topk: 63},
	},
	{
		name:  "uccl-ep",
		needs: []*backend.Need{pyrank.UCCL, deepEP(ucclWrapper, "its deep_ep", "UCCL's deep_ep (ep/deep_ep_wrapper of its sources)")},
		open:  gpurank.OpenAny,
		store: true,
		modes: map[string]mode{
			ep.ModeNormal: ucclNormal(limits{oneNode: true, worlds: bufferWorlds}),
			ep.ModeLowLatency: {
				module: "buffer", generation: "uccl-legacy-buffer-ll", receive: runner.TokenExpert, combine: runner.WeightedKernelSum, reduction: runner.DomainFP32,
				graphs: true, freshPair: true, cap: lowLatencyCap, capacity: lowLatencyCap, cast: cast{inKernel: true},
				// AMD's 16 groups of warps are too few for the kernels (uccl#1016).
				limits: limits{arch: 90, archs: []string{"sm_"}, fp8Unit: 512, oneNode: true},
			},
		},
		across: map[string]mode{ep.ModeNormal: ucclNormal(limits{worlds: ucclAcross})},
		limits: limits{hidden: ucclHidden, topk: 16},
	},
	{
		name: "mooncake-ep",
		needs: []*backend.Need{{Kind: "mooncake-ep", Label: "Mooncake EP", Module: &backend.Module{
			Name: "mooncake._ep", Distributions: []string{"mooncake-transfer-engine-cuda13", "mooncake-transfer-engine"}, Install: "Mooncake with its EP (mooncake-transfer-engine-cuda13)",
		}}},
		open:   gpurank.OpenCUDA,
		store:  true,
		modes:  map[string]mode{ep.ModeLowLatency: bufferLowLatency("mooncake-ep-ll", false)},
		limits: limits{arch: 80, oneNode: true},
	},
}

// Backends lists the backends of all libraries.
var Backends = backends()

func backends() (all []backend.Backend) {
	for _, l := range libraries {
		b := backend.Backend{Name: l.name, Needs: append([]*backend.Need{pyrank.Torch}, l.needs...)}
		if l.store { // the server of a TCPStore binds to every address, whatever its host name
			b.Listens = "torch's TCPStore listens on all network interfaces while ranks of " + l.name + " run: use a machine or network namespace that no one else can reach"
		}
		b.Open = map[plan.Family]rank.Opener{ep.Name: l.opener(b)}
		all = append(all, b)
	}
	return all
}

// older reports whether a version is below least. An unreadable version and a pre-release count as
// older.
func older(version string, least []int) bool {
	release, _, _ := strings.Cut(version, "+")
	parts := strings.Split(release, ".")
	for i, l := range least {
		if i >= len(parts) {
			return true
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < l {
			return true
		}
		if n > l {
			return false
		}
	}
	return len(parts) > len(least)
}

func ucclNormal(l limits) mode {
	return mode{
		module: "buffer", generation: "uccl-legacy-buffer", receive: runner.TokenRank, combine: runner.UnweightedRankSum, reduction: runner.DomainFP32,
		limits: l,
	}
}

// moriMode returns one of MoRI's modes. All receive by token and rank.
func moriMode(kernel, generation string, l limits) mode {
	return mode{
		module: "mori", kernel: kernel, generation: generation, receive: runner.TokenRank, combine: runner.UnweightedRankSum, reduction: runner.DomainFP32,
		graphs: true, freshPair: true, capacity: lowLatencyCap, cast: cast{plain: true}, globalIDs: true, limits: l,
	}
}

// moriLowLatency returns AsyncLL, or IntraNodeLL where the library lacks the calls that receive.
// Upstream tested both with eight ranks only.
func moriLowLatency() mode {
	l := limits{oneNode: true, worlds: []int{8}}
	older, m := moriMode("IntraNodeLL", "intranode-ll", l), moriMode("AsyncLL", "async-ll", l)
	older.cap, m.cap = lowLatencyCap, lowLatencyCap
	m.older = &older
	return m
}

// modeOf returns the mode of a case, with the kernels that the imported library has; before the
// import it returns the newest.
func (b library) modeOf(c *plan.Case, v versions) (m mode, ok bool) {
	name := ep.Of(c).Mode
	if m, ok = b.across[name]; !ok || c.Scope != vocab.ScopeOut {
		m, ok = b.modes[name]
	}
	if m.older != nil && slices.Contains(v.Lacks, m.kernel) {
		m = *m.older
	}
	return m, ok
}

// unsyncedSuffix ends the generation of kernels whose dispatch does not wait for the host.
const unsyncedSuffix = "-nosync"

// describe returns the declaration of a library for a case on a device, or refuses the case. v is
// zero before the library is imported.
func (b library) describe(c plan.Case, info accel.Info, v versions) (runner.Description, mode, error) {
	block := ep.Of(&c)
	m, ok := b.modeOf(&c, v)
	if !ok {
		return runner.Description{}, m, rank.Refused("%s has no mode %s", b.name, block.Mode)
	}
	if slices.Contains(v.Lacks, m.kernel) {
		return runner.Description{}, m, rank.Refused("%s %s lacks the kernels %s that mode %s needs in scope %s", b.name, v.Library, m.kernel, block.Mode, c.Scope)
	}
	if m.unsynced {
		if m.unsynced = block.Phase == ep.PhaseDecode; m.unsynced {
			m.generation += unsyncedSuffix
		}
		m.graphs = m.graphs && m.unsynced
	}
	if m.tunable && c.Scope == vocab.ScopeOut && os.Getenv("EP_WIN_RELAXED_ORDERING") == "1" { // of a patched DeepEP
		m.generation += "-relaxed-ordering"
	}
	for _, word := range block.Tuning.Words() {
		m.generation += "-" + word
	}
	d := runner.Description{
		Mode: block.Mode, KernelGeneration: m.generation, LibraryVersion: v.Library,
		Receive: m.receive, Combine: m.combine, Reduction: m.reduction,
		FreshPair: m.freshPair, StageWorks: m.stages, Capturable: m.graphs, Tunable: m.tunable, LadderCap: m.cap, IndexType: numeric.Int64,
	}
	if m.treeBefore != nil && older(v.Library, m.treeBefore) {
		d.Reduction = runner.TopKSlotTree
	}
	if m.globalIDs {
		d.IndexType = numeric.Int32
	}
	if err := d.SetPrecision(b.name, c.Precision, info.Arch, !m.cast.plain); err != nil {
		return d, m, err
	}
	if d.Codec.Format != nil {
		d.DispatchDType += m.cast.suffix
	}
	if c.Contract == ep.ContractCachedLayout && !m.cached {
		return d, m, rank.Refused("%s does not support timing contract cached-layout in mode %s", b.name, block.Mode)
	}
	for _, l := range []limits{b.limits, m.limits} {
		if err := b.within(l, c, d, m, info); err != nil {
			return d, m, err
		}
	}
	return d, m, nil
}

// within refuses a case that exceeds the limits.
func (b library) within(l limits, c plan.Case, d runner.Description, m mode, info accel.Info) error {
	block := ep.Of(&c)
	sm, smErr := strconv.Atoi(strings.TrimPrefix(info.Arch, "sm_"))
	switch {
	case l.arch > 0 && smErr == nil && sm < l.arch:
		return rank.Refused("%s needs a device of sm_%d or newer, not %s", b.name, l.arch, info.Arch)
	case len(l.archs) > 0 && !slices.ContainsFunc(l.archs, func(a string) bool { return strings.HasPrefix(info.Arch, a) }):
		return rank.Refused("%s has kernels for %s, not for %s", b.name, strings.Join(l.archs, " and "), info.Arch)
	case l.oneNode && c.Nodes > 1:
		return rank.Refused("%s is supported on one node only in mode %s, not on %d", b.name, block.Mode, c.Nodes)
	case l.transport != "" && c.ScaleUpTransport != l.transport:
		return rank.Refused("%s needs scale-up transport %s, not this platform's %s", b.name, l.transport, c.ScaleUpTransport)
	case l.maxWorld > 0 && c.World > l.maxWorld:
		return rank.Refused("%s supports at most %d ranks, not %d", b.name, l.maxWorld, c.World)
	case l.oneDomain && c.World > max(1, c.ScaleUpDomain):
		return rank.Refused("%s is supported only inside one scale-up domain in mode %s, not with %d ranks in domains of %d", b.name, block.Mode, c.World, c.ScaleUpDomain)
	case len(l.worlds) > 0 && !slices.Contains(l.worlds, c.World):
		return rank.Refused("%s has kernels for %v ranks in mode %s, not for %d", b.name, l.worlds, block.Mode, c.World)
	case l.powerOfTwo && c.RanksPerNode&(c.RanksPerNode-1) != 0:
		return rank.Refused("%s needs a power of two of ranks on a node, not %d", b.name, c.RanksPerNode)
	case l.gpusPerNode > 0 && c.RanksPerNode > l.gpusPerNode:
		return rank.Refused("%s supports at most %d ranks on a node, not %d", b.name, l.gpusPerNode, c.RanksPerNode)
	case len(l.hidden) > 0 && !slices.Contains(l.hidden, block.Hidden):
		return rank.Refused("%s has kernels for hidden sizes %v in mode %s, not for %d", b.name, l.hidden, block.Mode, block.Hidden)
	case l.hiddenUnit > 0 && block.Hidden%l.hiddenUnit != 0:
		return rank.Refused("%s needs a hidden size that is a multiple of %d, not %d", b.name, l.hiddenUnit, block.Hidden)
	case l.fp8Unit > 0 && d.Codec.Format != nil && block.Hidden%l.fp8Unit != 0:
		return rank.Refused("%s needs a hidden size that is a multiple of %d in fp8, not %d", b.name, l.fp8Unit, block.Hidden)
	case block.Hidden > maxHidden:
		return rank.Refused("%s supports hidden sizes up to %d, not %d", b.name, maxHidden, block.Hidden)
	case l.topk > 0 && block.TopK > l.topk:
		return rank.Refused("%s supports at most top-%d in mode %s, not top-%d", b.name, l.topk, block.Mode, block.TopK)
	case l.rowsUnit > 0 && c.World*m.capacity%l.rowsUnit != 0:
		return rank.Refused("%s needs a multiple of %d rows in mode %s, not %d ranks with %d rows each", b.name, l.rowsUnit, block.Mode, c.World, m.capacity)
	}
	return nil
}
