"""DeepEP's Buffer, and the libraries that have taken its interface."""
import json
import os

from collectivex_rank import Bound, Comm, comm, open_torch, settle, tensor, version
import collectivex_rank as rank

library = torch = None
case = bound = None
buffer = None
sizes = None  # of buffer
config = None  # of normal mode: of dispatch and of combine
layout = None  # handle, ids, weights and counts of the last whole dispatch
handle = rows = scales = ids = weights = counts = recv_counts = output = None

MIB = 1 << 20


def open(text):
    """Imports the library. Its versions."""
    global library, torch
    given = json.loads(text)
    # One host needs no network, and NVSHMEM without one does not start unless it is told so.
    if given["nodes"] == 1:
        os.environ.setdefault("NVSHMEM_REMOTE_TRANSPORT", "none")
    open_torch(given)
    torch = rank.torch
    import deep_ep

    library = deep_ep
    if not hasattr(deep_ep, "Buffer"):
        raise ImportError("deep_ep of %s has no Buffer" % deep_ep.__file__)
    return json.dumps({"torch": torch.__version__, "library": version("deep_ep", "deep-ep")})


def low():
    return case["mode"] == "low-latency"


def prepare(text):
    """Makes the buffers of a case, or keeps those of the last one if they are large enough."""
    global case, buffer, sizes, config, layout
    case = json.loads(text)
    layout = None
    hidden, world, experts = case["hidden"], rank.world, case["experts"]
    nvl = rdma = 0
    pairs = 24
    if low():
        rdma = library.Buffer.get_low_latency_rdma_size_hint(case["capacity"], hidden, world, experts)
        pairs = experts // world
    else:
        config = (library.Buffer.get_dispatch_config(world), library.Buffer.get_combine_config(world))
        for c in config:
            nvl = max(nvl, c.get_nvl_buffer_size_hint(hidden * 2, world))
            rdma = max(rdma, c.get_rdma_buffer_size_hint(hidden * 2, world))
    wanted = (low(), pairs, nvl, rdma)
    if sizes is None or sizes[:2] != wanted[:2] or sizes[2] < nvl or sizes[3] < rdma:
        if buffer is not None:
            buffer.destroy()
        sizes = wanted
        buffer = library.Buffer(
            None, nvl, rdma, low_latency_mode=low(), num_qps_per_rank=pairs,
            allow_mnnvl=case["mnnvl"], explicitly_destroy=True, comm=comm,
        )
    if low():
        buffer.clean_low_latency_buffer(case["capacity"], hidden, experts)
    torch.cuda.synchronize()
    comm.barrier()
    settle()
    if not low():
        return json.dumps({"groups": 1, "capacity": world * case["tokens"], "row_scales": hidden // 128, "column_scales": 1})
    capacity, columns = world * case["capacity"], hidden // 128
    return json.dumps({
        "groups": experts // world, "capacity": capacity,
        "group_scales": capacity * columns, "row_scales": 1, "column_scales": capacity,
    })


def bind(x, scales, expert, weight, tokens, _):
    global bound, layout
    bound = Bound(case, x, scales, expert, weight, tokens)
    layout = None


def sent():
    return bound.x if bound.scales is None else (bound.x, bound.scales)


def received(x):
    global rows, scales
    rows, scales = x if isinstance(x, tuple) else (x, None)


def dispatch():
    global handle, ids, weights, counts, recv_counts, layout
    if low():
        x, recv_counts, handle, _, _ = buffer.low_latency_dispatch(
            bound.x, bound.expert, case["capacity"], case["experts"], use_fp8=case["fp8"])
        received(x)
        return
    per_rank, per_node, per_expert, is_in_rank, _ = buffer.get_dispatch_layout(bound.expert, case["experts"])
    x, ids, weights, counts, handle, _ = buffer.dispatch(
        sent(), num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=per_node, is_token_in_rank=is_in_rank,
        num_tokens_per_expert=per_expert, topk_idx=bound.expert, topk_weights=bound.weight, config=config[0])
    received(x)
    layout = handle


def cached():
    global handle
    x, _, _, _, _, _ = buffer.dispatch(sent(), handle=layout, config=config[0])
    handle = layout
    received(x)


def combine(staged):
    """Of the rows that arrived, or of others in their places."""
    global output
    x = rows if staged == 0 else tensor(staged, tuple(rows.shape), torch.bfloat16)
    if low():
        output, _, _ = buffer.low_latency_combine(x, bound.expert, bound.weight, handle)
    else:
        output, _, _ = buffer.combine(x, handle, config=config[1])
    return output.data_ptr()


def values_at():
    return rows.data_ptr()


def scales_at():
    return 0 if scales is None else scales.data_ptr()


def rows_of():
    return -1 if low() else rows.size(0)


def counts_at():
    return recv_counts.data_ptr() if low() else 0


def ids_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    return counts[expert]


def staging():
    return 0


def close():
    global buffer
    if buffer is not None:
        torch.cuda.synchronize()
        comm.barrier()
        buffer.destroy()
        buffer = None
