"""DeepEP's ElasticBuffer in direct mode: inside one scale-up domain."""
import json
import os

from collectivex_rank import Bound, comm, end, keep_kernels_apart, open_torch, parted, settle, tensor, version
import collectivex_rank as rank

library = torch = None
case = bound = None
group = None
buffer = None
launch = None  # multiprocessors and queue pairs
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
    os.environ.setdefault("EP_DISABLE_GIN", "1")  # direct mode needs no network
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
    size = library.ElasticBuffer.get_buffer_size_hint(group, tokens, hidden, topk, fp8, False)
    if buffer is not None and buffer.num_bytes < size:
        buffer.destroy()
        buffer = None
    if buffer is None:
        buffer = library.ElasticBuffer(
            group, num_max_tokens_per_rank=tokens, hidden=hidden, num_topk=topk, use_fp8_dispatch=fp8,
            allow_hybrid_mode=False, explicitly_destroy=True)
    sms = buffer.get_theoretical_num_sms(case["experts"], topk)
    launch = {"num_sms": sms, "num_qps": buffer.get_theoretical_num_qps(sms), "async_with_compute_stream": False}
    torch.cuda.synchronize()
    comm.barrier()
    settle()
    return json.dumps({"groups": 1, "capacity": rank.world * case["capacity"], "row_scales": hidden // 128, "column_scales": 1})


def bind(x, scales, expert, weight, tokens, _):
    global bound, layout
    bound = Bound(case, x, scales, expert, weight, tokens)
    layout = None


def input(x):
    bound.input(x)


def choose(n):
    bound.choose(n)


def dispatch():
    global handle, rows, scales, ids, weights, layout
    x, ids, weights, handle, _ = library_dispatch(
        topk_idx=bound.expert, topk_weights=bound.weight, num_experts=case["experts"],
        num_max_tokens_per_rank=case["capacity"], expert_alignment=1, do_handle_copy=True, do_cpu_sync=True, do_expand=False)
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
    return 0


def experts_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    return layout.num_recv_tokens_per_expert_list[expert]


def staging():
    return 0


def close():
    global buffer
    end(buffer)
    buffer = None
