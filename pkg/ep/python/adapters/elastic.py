"""DeepEP's ElasticBuffer: in direct mode inside one scale-up domain, in hybrid mode across domains."""
import json
import os

from collectivex_rank import Bound, capturing, comm, end, keep_kernels_apart, open_torch, parted, settle, tensor, version  # noqa: F401
import collectivex_rank as rank

# Queue pairs of a rank to all others. The library's default of up to 129 to each of 16 ranks exceeds
# what a ConnectX-7 has.
QUEUE_PAIRS = 512

library = torch = None
case = bound = None
group = None
buffer = None
launch = None  # multiprocessors and queue pairs
most = 0  # tokens of any rank
layout = None  # handle of the last whole dispatch
handle = rows = scales = ids = weights = output = None


class Group:
    """The part of a process group that ElasticBuffer uses: its ranks, and an NCCL communicator."""

    def __init__(self, native):
        unique = comm.allgather(native.get_local_nccl_unique_id())[0]
        self.pointer = native.create_nccl_comm(unique, rank.world, rank.rank)

    def rank(self):
        return rank.rank

    def size(self):
        return rank.world

    def barrier(self):
        comm.barrier()

    def _get_backend(self, device):
        return self

    def _comm_ptr(self):
        return self.pointer


def open(text):
    global library, torch, group
    given = json.loads(text)
    if given["across"]:
        os.environ.pop("EP_DISABLE_GIN", None)
    else:
        os.environ["EP_DISABLE_GIN"] = "1"  # direct mode needs no network
    os.environ["EP_REUSE_NCCL_COMM"] = "1"  # 0 needs a group of torch.distributed
    keep_kernels_apart(given)
    open_torch(given)
    torch = rank.torch
    import deep_ep

    library = deep_ep
    if not hasattr(deep_ep, "ElasticBuffer"):
        raise ImportError("deep_ep of %s has no ElasticBuffer: it is not DeepEP V2" % deep_ep.__file__)
    import deep_ep._C

    group = Group(deep_ep._C)
    return json.dumps({"torch": torch.__version__, "library": version("deep_ep", "deep-ep")})


def prepare(text):
    global case, buffer, launch, layout
    case = json.loads(text)
    layout = None
    tokens, hidden, topk, fp8 = case["capacity"], case["hidden"], case["topk"], case["fp8"]
    hybrid = case["across"]
    size = library.ElasticBuffer.get_buffer_size_hint(group, tokens, hidden, topk, fp8, hybrid)
    tuning = case["tuning"]
    overlap, copies = not tuning.get("no_overlap"), not tuning.get("no_handle_copy")
    if buffer is not None and (buffer.num_bytes < size or buffer.prefer_overlap_with_compute != overlap):
        buffer.destroy()
        buffer = None
    if buffer is None:
        buffer = library.ElasticBuffer(
            group, num_max_tokens_per_rank=tokens, hidden=hidden, num_topk=topk, use_fp8_dispatch=fp8,
            prefer_overlap_with_compute=overlap, allow_hybrid_mode=hybrid, num_allocated_qps=max(9, 1 + QUEUE_PAIRS // rank.world) if hybrid else 0, explicitly_destroy=True)
    theoretical = buffer.get_theoretical_num_sms(case["experts"], topk)
    sms = tuning.get("num_sms", theoretical)
    pairs = buffer.get_theoretical_num_qps(sms)
    launch = {"num_sms": sms, "num_qps": pairs, "async_with_compute_stream": False}
    case["handle_copy"] = copies
    torch.cuda.synchronize()
    comm.barrier()
    settle()
    return json.dumps({
        "groups": 1, "capacity": rank.world * case["capacity"], "row_scales": hidden // 128, "column_scales": 1,
        "tuning": {
            "num_sms": sms, "num_sms_theoretical": theoretical, "num_qps": pairs, "prefer_overlap_with_compute": overlap, "do_handle_copy": copies,
        },
    })


def bind(x, scales, expert, weight, tokens, largest):
    global bound, most, layout
    bound = Bound(case, x, scales, expert, weight, tokens)
    most = largest
    layout = None


def input(x):
    bound.input(x)


def choose(n):
    bound.choose(n)


def capacity():
    """Returns the maximum of tokens of a rank that a dispatch is told. Without the host's wait, memory
    for as many rows of each rank arrives, so it follows the batch, as serving engines have it."""
    return case["capacity"] if case["sync"] else min(case["capacity"], 1 << max(0, most - 1).bit_length())


def dispatch():
    global handle, rows, scales, ids, weights, layout
    x, ids, weights, handle, _ = library_dispatch(
        topk_idx=bound.expert, topk_weights=bound.weight, num_experts=case["experts"],
        num_max_tokens_per_rank=capacity(), expert_alignment=1, do_handle_copy=case["handle_copy"], do_cpu_sync=case["sync"], do_expand=False)
    rows, scales = parted(x)
    layout = handle


def cached():
    global handle, rows, scales
    x, _, _, handle, _ = library_dispatch(handle=layout)
    rows, scales = parted(x)


def library_dispatch(**of):
    return buffer.dispatch(bound.sent(), **of, **launch)


def combine(staged):
    global output
    x = rows if staged == 0 else tensor(staged, tuple(rows.shape), torch.bfloat16)
    output, _, _ = buffer.combine(x, handle, **launch)
    return output.data_ptr()


def values_at():
    return rows.data_ptr()


def scales_at():
    if scales is None:
        return 0
    if not scales.is_contiguous():
        raise TypeError("scales at distances of %d and %d floats" % (scales.stride(0), scales.stride(1)))
    return scales.data_ptr()


def rows_of():
    return rows.size(0)


def counts_at():
    return 0 if case["sync"] else handle.psum_num_recv_tokens_per_scaleup_rank[-1:].data_ptr()


def experts_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    if case["sync"]:
        return layout.num_recv_tokens_per_expert_list[expert]
    up_to = layout.psum_num_recv_tokens_per_expert.tolist()
    return up_to[expert] - (up_to[expert - 1] if expert else 0)


def staging():
    return 0


def close():
    global buffer
    end(buffer)
    buffer = None
