"""FlashInfer's one-sided all-to-all: MoeAlltoAll over MNNVL."""
import json

from collectivex_rank import Bound, Comm, capturing, comm, open_torch, settle, version  # noqa: F401
import collectivex_rank as rank

Mapping = MoeAlltoAll = MnnvlConfig = size_of = torch = None
backend = None  # of communication
case = bound = None
most = 0  # tokens of any rank
alltoall = made = None
rows = scales = ids = weights = region = output = None


def open(text):
    global Mapping, MoeAlltoAll, MnnvlConfig, size_of, torch, backend
    open_torch(json.loads(text))
    torch = rank.torch
    from flashinfer.comm import Mapping
    from flashinfer.comm.mnnvl import CommBackend, MnnvlConfig
    from flashinfer.comm.trtllm_moe_alltoall import MoeAlltoAll, moe_a2a_get_workspace_size_per_rank as size_of

    backend = type("Backend", (Comm, CommBackend), {})()
    return json.dumps({"torch": torch.__version__, "library": version("flashinfer-python", "flashinfer")})


def prepare(text):
    global case, alltoall, made
    case = json.loads(text)
    world, hidden, topk = rank.world, case["hidden"], case["topk"]
    sent = hidden + hidden // 128 * 4 if case["fp8"] else 2 * hidden
    # The library aligns each payload, and the sum of the payloads, to a cache line.
    size = size_of(world, case["capacity"], sent + topk * (4 + 4), 2 * hidden) + 4 * 128
    of = (case["capacity"], topk, case["experts"], size)
    if made != of:
        mapping = Mapping(world, rank.rank, case["ranks_per_node"], tp_size=world, moe_ep_size=world)
        alltoall = MoeAlltoAll(
            mapping, case["capacity"], topk, case["experts"], workspace_size_per_rank=size,
            mnnvl_config=MnnvlConfig(comm_backend=backend))
        made = of
    torch.cuda.synchronize()
    comm.barrier()  # no memory is cleared after a peer has written to it
    settle()
    return json.dumps({
        "groups": 1, "capacity": world * case["capacity"], "row_scales": hidden // 128, "column_scales": 1,
        "sparse": True, "staged_elsewhere": True,
    })


def bind(x, scales, expert, weight, tokens, largest):
    global bound, most
    bound = Bound(case, x, scales, expert, weight, tokens)
    most = largest


def input(x):
    bound.input(x)


def choose(n):
    bound.choose(n)


def dispatch():
    global rows, scales, ids, weights, region
    region = None
    payloads = [bound.x] if bound.scales is None else [bound.x, bound.scales]
    *values, ids, weights = alltoall.dispatch(
        bound.expert, payloads + [bound.expert, bound.weight], most,
        invalid_token_expert_id=-1, expert_id_payload_index=len(payloads))
    rows, scales = values if len(values) == 2 else (values[0], None)


def cached():
    raise NotImplementedError("FlashInfer does not support dispatch with a cached layout")


def staging():
    global region
    if region is None:
        region = alltoall.get_combine_payload_tensor_in_workspace(most, case["hidden"], torch.bfloat16)
    return region.data_ptr()


def combine(staged):
    """Combines the rows in the workspace. Rows that were staged once are still there: every
    dispatch of a problem places its rows at the same addresses."""
    global output
    if staged != staging():
        raise ValueError("rows were staged outside the workspace")
    output = alltoall.combine(region, most, payload_in_workspace=True)
    return output.data_ptr()


def values_at():
    return rows.data_ptr()


def scales_at():
    return 0 if scales is None else scales.data_ptr()


def rows_of():
    return rank.world * most


def counts_at():
    return 0


def experts_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    raise NotImplementedError("FlashInfer does not count the rows of an expert")


def close():
    torch.cuda.synchronize()
    comm.barrier()
