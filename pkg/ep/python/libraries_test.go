package python

import (
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/plan"
	"github.com/collectivex/collectivex/pkg/vocab"
)

// standIn is the stand-in for a library, and what the tests of all libraries expect with it.
type standIn struct {
	backend string
	// library is a part of the name of its directory in testdata/python, version what doctor and
	// documents say.
	library, version string
	hip              bool
	change           func(*plan.Case) // of every case
	// documents have, by mode, these in common: generation of the kernels, fp8 type, arithmetic.
	documents map[string]string
	across    string // generation of normal mode across scale-up domains; empty: none
	refusals  []refusal
	mistakes  []mistake
}

// refusal is a case that the adapter has to refuse.
type refusal struct {
	mode, arch, text string
	change           func(*plan.Case)
}

// mistake is an adapter that misuses its library: what it has in the place of old. found is a regular
// expression for what comes of it, in the reasons of the document or in a log.
type mistake struct {
	mode, old, new, found string
}

func cached(c *plan.Case) { c.Contract = ep.ContractCachedLayout }

func emptyRank(c *plan.Case) { ep.Of(c).Routing = "uneven-empty-rank" }

func mnnvl(c *plan.Case) { c.ScaleUpTransport = "mnnvl" }

func hidden(n int) func(*plan.Case) { return func(c *plan.Case) { ep.Of(c).Hidden = n } }

func topk(n int) func(*plan.Case) { return func(c *plan.Case) { ep.Of(c).TopK = n } }

func nodes(n int) func(*plan.Case) { return func(c *plan.Case) { c.Nodes = n } }

func phase(name string) func(*plan.Case) { return func(c *plan.Case) { ep.Of(c).Phase = name } }

func graph(c *plan.Case) { ep.Of(c).TimingMode = vocab.Graph }

// twoNodes places the ranks on two nodes, each a scale-up domain of its own.
func twoNodes(c *plan.Case) {
	out := "rdma"
	c.Nodes, c.GPUsPerNode, c.RanksPerNode, c.ScaleUpDomain = 2, 1, 1, 1
	c.Scope, c.ScaleOutTransport, c.Transport = vocab.ScopeOut, &out, c.ScaleUpTransport+"-"+out
}

// standIns are those of all libraries.
var standIns = []standIn{
	{
		backend: "deepep-legacy", library: "deep_ep-1", version: "1.2.1+29d31c0",
		documents: map[string]string{
			ep.ModeNormal:     "legacy-buffer, fp8-e4m3fn, domain-fp32",
			ep.ModeLowLatency: "legacy-buffer-ll, fp8-e4m3fn, domain-fp32",
		},
		refusals: []refusal{
			{ep.ModeNormal, "sm_80", "deepep-legacy needs a device of sm_90 or newer, not sm_80", nil},
			{ep.ModeNormal, "sm_90", "deepep-legacy dispatches bf16 and fp8, not mxfp8", func(c *plan.Case) { c.Precision = "mxfp8" }},
			{ep.ModeNormal, "sm_90", "deepep-legacy is supported on one node only in mode normal, not on 2", nodes(2)},
			{ep.ModeNormal, "sm_90", "deepep-legacy has kernels for [2 4 8] ranks in mode normal, not for 3", func(c *plan.Case) { c.World = 3 }},
			{ep.ModeNormal, "sm_90", "deepep-legacy needs a hidden size that is a multiple of 128, not 2100", hidden(2100)},
			{ep.ModeLowLatency, "sm_90", "deepep-legacy has kernels for hidden sizes [2048 2560 3072 4096 5120 6144 7168 8192] in mode low-latency, not for 2176", hidden(2176)},
			{ep.ModeLowLatency, "sm_90", "deepep-legacy supports at most top-11 in mode low-latency, not top-12", topk(12)},
			{ep.ModeLowLatency, "sm_90", "deepep-legacy does not support timing contract cached-layout in mode low-latency", cached},
		},
		mistakes: []mistake{
			{ep.ModeLowLatency, `buffer.clean_low_latency_buffer(case["capacity"], hidden, experts)`, "pass", "AssertionError: the buffer is dirty"},
		},
	},
	{
		backend: "deepep-v2", library: "deep_ep-2", version: "2.0.0+dd758ca",
		documents: map[string]string{
			ep.ModeNormal:     "v2-elastic-buffer-nosync, fp8-e4m3fn, domain-fp32",
			ep.ModeLowLatency: "legacy-buffer-ll, fp8-e4m3fn, domain-fp32",
		},
		across: "v2-elastic-buffer-nosync",
		refusals: []refusal{
			{ep.ModeNormal, "sm_90", "deepep-v2 supports at most top-32 in mode normal, not top-33", topk(33)},
		},
		mistakes: []mistake{
			{ep.ModeNormal, `["EP_DISABLE_GIN"] = "1"`, `["EP_DISABLE_GIN"] = "0"`, "AssertionError: no network"},
			{ep.ModeNormal, `["EP_REUSE_NCCL_COMM"] = "1"`, `["EP_REUSE_NCCL_COMM"] = "0"`, "AssertionError: expecting a ProcessGroup"},
			{ep.ModeNormal, `allow_hybrid_mode=hybrid`, "allow_hybrid_mode=True", "AssertionError: hybrid mode is for ranks of several scale-up domains"},
			{ep.ModeNormal, "scaleup_rank[-1:]", "scaleup_rank[:1]", "check-failed: before source_set"},
			{ep.ModeNormal, "up_to[expert - 1] if expert", "0 if expert", "check-failed: before counts"},
		},
	},
	{
		backend: "uccl-ep", library: "uccl", version: "0.1.0",
		documents: map[string]string{
			ep.ModeNormal:     "uccl-legacy-buffer, fp8-e4m3fn, domain-fp32",
			ep.ModeLowLatency: "uccl-legacy-buffer-ll, fp8-e4m3fn, domain-fp32",
		},
		across: "uccl-legacy-buffer",
		refusals: []refusal{
			{ep.ModeLowLatency, "gfx942", "uccl-ep has kernels for sm_, not for gfx942", nil},
			{ep.ModeNormal, "sm_90", "uccl-ep is supported on one node only in mode normal, not on 2", nodes(2)},
			{ep.ModeNormal, "sm_90", "uccl-ep has kernels for [16 24 32 64] ranks in mode normal, not for 12", func(c *plan.Case) { twoNodes(c); c.World = 12 }},
			{ep.ModeLowLatency, "sm_90", "uccl-ep is supported on one node only in mode low-latency, not on 2", twoNodes},
			{ep.ModeNormal, "sm_90", "uccl-ep has kernels for hidden sizes [2048 2560 4096 5120 6144 7168 8192] in mode normal, not for 3072", hidden(3072)},
		},
		mistakes: []mistake{{ep.ModeLowLatency, `process_group("gloo"), nvl`, "comm, nvl", "AssertionError: not a group of torch.distributed"}},
	},
	{
		backend: "mori", library: "amd_mori", version: "1.0.0", hip: true, // this device is of gfx942
		documents: map[string]string{
			ep.ModeNormal:     "intranode, fp8-e4m3fnuz, domain-fp32",
			ep.ModeLowLatency: "async-ll, fp8-e4m3fnuz, domain-fp32",
		},
		across: "inter-node-v1",
		refusals: []refusal{
			{ep.ModeNormal, "gfx90a", "mori has kernels for gfx942 and gfx950, not for gfx90a", nil},
			{ep.ModeLowLatency, "gfx950", "mori has kernels for [8] ranks in mode low-latency, not for 2", nil},
			{ep.ModeNormal, "gfx950", "mori needs a power of two of ranks on a node, not 6", func(c *plan.Case) { c.RanksPerNode = 6 }},
			{ep.ModeNormal, "gfx950", "mori does not support timing contract cached-layout in mode normal", cached},
			{ep.ModeNormal, "gfx950", "mori is supported on one node only in mode normal, not on 2", nodes(2)},
			{ep.ModeLowLatency, "gfx950", "mori is supported on one node only in mode low-latency, not on 2", twoNodes},
		},
		mistakes: []mistake{
			{ep.ModeNormal, "bound.expert if sent else ids", "bound.expert[:1]", `ValueError: combine\(\) indices has 1 rows`},
			{ep.ModeLowLatency, "op.dispatch_recv()", "pass", "AssertionError: what was sent has yet to be received"},
			{ep.ModeLowLatency, "op.combine_recv()", "pass", "AssertionError: what was sent has yet to be received|check-failed: before combine"},
		},
	},
	{
		backend: "flashinfer-ep", library: "flashinfer", version: "0.6.18", change: mnnvl,
		documents: map[string]string{ep.ModeNormal: "flashinfer-mnnvl-one-sided, fp8-e4m3fn-blockwise-offpath, domain-fp32"},
		refusals: []refusal{
			{ep.ModeNormal, "sm_90", "flashinfer-ep needs scale-up transport mnnvl, not this platform's shm", func(c *plan.Case) { c.ScaleUpTransport = "shm" }},
			{ep.ModeNormal, "sm_90", "flashinfer-ep is supported only inside one scale-up domain in mode normal, not with 2 ranks in domains of 1", func(c *plan.Case) { c.ScaleUpDomain = 1 }},
			{ep.ModeLowLatency, "sm_90", "flashinfer-ep has no mode low-latency", nil},
		},
		mistakes: []mistake{{ep.ModeNormal, "+ 4 * 128", "// 2", "AssertionError: the workspace is too small"}},
	},
	{
		backend: "mooncake-ep", library: "mooncake", version: "0.3.13.post1",
		documents: map[string]string{ep.ModeLowLatency: "mooncake-ep-ll, fp8-e4m3fn, domain-fp32"},
		refusals: []refusal{
			{ep.ModeNormal, "sm_90", "mooncake-ep has no mode normal", nil},
			{ep.ModeLowLatency, "sm_75", "mooncake-ep needs a device of sm_80 or newer, not sm_75", nil},
			{ep.ModeLowLatency, "sm_90", "mooncake-ep is supported on one node only in mode low-latency, not on 2", nodes(2)},
			{ep.ModeLowLatency, "sm_90", "mooncake-ep supports at most top-11 in mode low-latency, not top-12", topk(12)},
		},
		mistakes: []mistake{
			{ep.ModeLowLatency, `process_group("nccl"), size`, `process_group("nccl"), size, rank.rank == 1`, "refused: Mooncake EP found neither IBGDA nor access to the memory of all peers"},
			{ep.ModeLowLatency, `process_group("nccl")`, `process_group("gloo")`, "AssertionError: addresses are gathered in tensors on devices"},
			{ep.ModeLowLatency, "torch.full((rank.world,), 1", "torch.full((rank.world + 1,), 1", "AssertionError: the library would take all ranks to be alive"},
			{ep.ModeLowLatency, "1, dtype=torch.int32", "1, dtype=torch.int64", "AssertionError: .* torch.int64"},
			{ep.ModeLowLatency, "torch.full((rank.world,), 1", "torch.full((rank.world,), 0", "check-failed: before counts"},
			{ep.ModeLowLatency, "experts, timeout_us=-1", "experts, timeout_us=10**8", "check-failed: before counts"},
			{ep.ModeLowLatency, "timeout_us=-1, handle", "timeout_us=0, handle", "check-failed: .* combine"},
			{ep.ModeLowLatency, `(case["capacity"], hidden, experts) if mooncake`, "1 if mooncake", "AssertionError: what was sent in another shape"},
			{ep.ModeLowLatency, "self.alive, capacity, experts", "self.alive, 2 * capacity, experts", "AssertionError: the buffer is too small"},
			{ep.ModeLowLatency, "    torch.cuda.synchronize()\n    comm.barrier()\n    settle()\n    if not low", "    comm.barrier()\n    settle()\n    if not low", "AssertionError: the buffer may be cleared"},
			{ep.ModeLowLatency, "x, recv_counts, handle, _, _ = buffer", "for buffer_ in 2 * [buffer]: x, recv_counts, handle, _, _ = buffer_", "AssertionError: the last dispatch was not combined"},
			{ep.ModeLowLatency, "output, _, _ = buffer.low", "for buffer_ in 2 * [buffer]: output, _, _ = buffer_.low", "AssertionError: a handle is good for one combine"},
		},
	},
}
