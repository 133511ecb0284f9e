"""MoRI's EpDispatchCombineOp (v1)."""
import json
import os

from collectivex_rank import Bound, Refused, capturing, comm, open_torch, settle, tensor, version  # noqa: F401
import collectivex_rank as rank

ops = shmem = torch = None
case = bound = None
launch = None
op = made = None
rows = weights = ids = total = output = None

# How kernels are launched, as serving engines do: blocks, blocks for RDMA, warps.
LAUNCHES = {"IntraNode": (80, 0, 16), "IntraNodeLL": (80, 0, 16), "InterNodeV1": (96, 64, 8), "AsyncLL": (64, 32, 8)}


def open(text):
    global ops, shmem, torch
    given = json.loads(text)
    heap = os.environ.get("MORI_SHMEM_MODE", "static")
    if given["across"] and heap.upper() not in ("STATIC", "STATIC_HEAP"):
        raise Refused("MORI_SHMEM_MODE is %s, but InterNodeV1 combines correctly in the static heap only (ROCm/mori#610): unset it" % heap)
    os.environ.setdefault("MORI_SHMEM_HEAP_SIZE", "6G")
    os.environ["MORI_EP_LAUNCH_CONFIG_MODE"] = "MANUAL"
    open_torch(given)
    torch = rank.torch
    import mori.ops
    import mori.shmem

    ops, shmem = mori.ops, mori.shmem
    unique = comm.bcast(shmem.shmem_get_unique_id() if rank.rank == 0 else None)
    shmem.shmem_init_attr(shmem.MORI_SHMEM_INIT_WITH_UNIQUEID, rank.rank, rank.world, unique)
    kinds = ops.EpDispatchCombineKernelType
    lacks = [name for name in LAUNCHES if not hasattr(kinds, name)]
    if not hasattr(ops.EpDispatchCombineOp, "dispatch_recv") or not hasattr(ops.EpDispatchCombineOp, "combine_recv"):
        lacks.append("AsyncLL")
    return json.dumps({"torch": torch.__version__, "library": version("amd_mori", "amd-mori", "mori"), "lacks": lacks})


def prepare(text):
    """Makes the operator of a case. Without torch.distributed it does not wait for its peers,
    although it clears their memory, so no rank may use an operator meanwhile."""
    global case, launch, op, made, rows, weights, ids, total, output
    case = json.loads(text)
    blocks, rdma, warps = LAUNCHES[case["kernel"]]
    launch = {"block_num": blocks, "rdma_block_num": rdma, "warp_per_block": warps}
    of = {
        "data_type": torch.bfloat16, "rank": rank.rank, "world_size": rank.world, "hidden_dim": case["hidden"],
        "scale_dim": 0, "scale_type_size": 1, "max_token_type_size": 2, "max_num_inp_token_per_rank": case["capacity"],
        "num_experts_per_rank": case["experts"] // rank.world, "num_experts_per_token": case["topk"],
        "warp_num_per_block": warps, "block_num": blocks, "rdma_block_num": rdma, "use_external_inp_buf": True,
        "kernel_type": getattr(ops.EpDispatchCombineKernelType, case["kernel"]),
        "gpu_per_node": case["ranks_per_node"], "num_qp_per_pe": 1, "quant_type": "none",
    }
    torch.cuda.synchronize()
    comm.barrier()
    if made != of:
        op = rows = weights = ids = total = output = None
        comm.barrier()
        op, made = ops.EpDispatchCombineOp(ops.EpDispatchCombineConfig(**of)), of
        if op.launch_config_mode != "MANUAL":
            raise RuntimeError("MoRI chooses its launches itself (%s): MORI_EP_LAUNCH_CONFIG_MODE was not read" % op.launch_config_mode)
        torch.cuda.synchronize()
        comm.barrier()
    settle()
    return json.dumps({"groups": 1, "capacity": rank.world * case["capacity"]})


def bind(x, scales, expert, weight, tokens, _):
    global bound
    bound = Bound(case, x, scales, expert, weight, tokens)


def input(x):
    bound.input(x)


def choose(n):
    bound.choose(n)


def dispatch():
    global rows, weights, ids, total
    rows, weights, _, ids, total = op.dispatch(bound.x, bound.weight, None, bound.expert, **launch)
    if case["kernel"] == "AsyncLL":
        op.dispatch_recv()  # dispatch has only sent


def cached():
    raise NotImplementedError("MoRI is not measured with a cached layout")


def combine(staged):
    """Since ROCm/mori#546, combine takes the expert ids of the tokens sent. Older versions take the
    ids of the received rows."""
    global output
    x = rows if staged == 0 else tensor(staged, tuple(rows.shape), torch.bfloat16)
    sent = hasattr(ops.EpDispatchCombineOp, "_check_combine_indices")
    output, _ = op.combine(x, None, bound.expert if sent else ids, **launch)
    if case["kernel"] == "AsyncLL":
        op.combine_recv()
    return output.data_ptr()


def values_at():
    return rows.data_ptr()


def scales_at():
    return 0


def rows_of():
    return -1


def counts_at():
    return total.data_ptr()


def experts_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    raise NotImplementedError("MoRI does not count the rows of an expert")


def staging():
    return 0


def close():
    """Frees nothing: MoRI fails an assertion if its memory outlives its library."""
    torch.cuda.synchronize()
    comm.barrier()
