"""DeepEP's Buffer, and libraries with the same interface."""
import fcntl
import inspect
import json
import os
import socket
import struct

from collectivex_rank import Bound, Refused, capturing, comm, end, keep_kernels_apart, open_torch, parted, settle, tensor, version  # noqa: F401
import collectivex_rank as rank

library = torch = None
case = bound = None
uccl = False  # the library is UCCL's wrapper, which is also named deep_ep
mooncake = False  # the library is Mooncake's
nodes = 1  # of the group
group = None  # of torch.distributed
buffer = None
sizes = None  # of buffer
config = None  # of normal mode: of dispatch and of combine
layout = None  # handle, ids, weights and counts of the last whole dispatch
handle = rows = scales = ids = weights = counts = recv_counts = output = None


def open(text):
    """Imports the library, and returns the versions of what it imported."""
    global library, torch, uccl, mooncake, nodes
    given = json.loads(text)
    nodes = given["nodes"]
    # One host needs no network, but without one NVSHMEM starts only with this setting.
    if nodes == 1:
        os.environ.setdefault("NVSHMEM_REMOTE_TRANSPORT", "none")
    if given["backend"] == "deepep-v2":
        keep_kernels_apart(given)
    open_torch(given)
    torch = rank.torch
    mooncake = given["backend"] == "mooncake-ep"
    if mooncake:
        import mooncake.mooncake_ep_buffer as library

        return json.dumps({"torch": torch.__version__, "library": version("mooncake-transfer-engine-cuda13", "mooncake-transfer-engine")})
    import deep_ep

    library = deep_ep
    if not hasattr(deep_ep, "Buffer"):
        raise ImportError("deep_ep of %s has no class Buffer" % deep_ep.__file__)
    uccl = given["backend"] == "uccl-ep"
    has = ("is_intranode" in inspect.signature(deep_ep.Buffer.__init__).parameters, hasattr(deep_ep, "ElasticBuffer"))
    if has != (uccl, given["backend"] == "deepep-v2"):
        raise ImportError("deep_ep of %s is not the library of backend %s" % (deep_ep.__file__, given["backend"]))
    return json.dumps({"torch": torch.__version__, "library": version("uccl") if uccl else version("deep_ep", "deep-ep")})


def address():
    """Returns the IPv4 address of this host that the other hosts reach: of the interface that the
    operator names for UCCL, or of the host's name."""
    name = os.environ.get("UCCL_SOCKET_IFNAME")
    if not name:
        return socket.gethostbyname(socket.gethostname())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("256s", name.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(s.fileno(), 0x8915, request)[20:24])  # SIOCGIFADDR


def process_group(backend):
    """Returns the process group of all ranks."""
    global group
    if group is None:
        import torch.distributed as dist

        host, first = "127.0.0.1", rank.rank == 0
        interface = "lo"
        if nodes > 1:
            host, interface = comm.bcast(address() if first else None), os.environ.get("UCCL_SOCKET_IFNAME")
        if interface:
            os.environ.setdefault(backend.upper() + "_SOCKET_IFNAME", interface)
        store = dist.TCPStore(host, 0, rank.world, True, wait_for_workers=False) if first else None
        port = comm.bcast(store.port if first else None)
        store = store or dist.TCPStore(host, port, rank.world, False)
        dist.init_process_group(backend, store=store, rank=rank.rank, world_size=rank.world)
        group = dist.group.WORLD
    return group


class Mooncake:
    """Gives Mooncake's Buffer the interface of DeepEP's.

    Every operation treats all ranks as alive and has no timeout: after a timeout Mooncake leaves out
    the rows of a slow rank.
    """

    def __init__(self, size):
        self.buffer = library.Buffer(process_group("nccl"), size)
        self.alive = torch.full((rank.world,), 1, dtype=torch.int32, device="cuda")
        if any(comm.allgather(self.buffer._use_fallback)):
            raise Refused("Mooncake EP found neither IBGDA nor access to the memory of all peers, and would use collectives of torch instead")

    def clean_low_latency_buffer(self, *_):
        """Does nothing: each operation clears the signals of the next one."""

    def low_latency_dispatch(self, x, topk_idx, capacity, experts, use_fp8):
        return self.buffer.dispatch(x, topk_idx, self.alive, capacity, experts, timeout_us=-1, use_fp8=use_fp8)

    def low_latency_combine(self, x, topk_idx, topk_weights, handle):
        return self.buffer.combine(x, topk_idx, topk_weights, self.alive, timeout_us=-1, handle=handle)

    def destroy(self):
        """Frees the memory after all ranks have finished their work in it."""
        torch.cuda.synchronize()
        comm.barrier()
        self.buffer = None


def low():
    return case["mode"] == "low-latency"


def prepare(text):
    """Makes the buffers of a case, or keeps the last case's buffers if they are large enough."""
    global case, buffer, sizes, config, layout
    case = json.loads(text)
    layout = None
    hidden, world, experts = case["hidden"], rank.world, case["experts"]
    nvl = rdma = 0
    pairs = 1 if uccl else 24
    if low():
        case["capacity"] += -case["capacity"] % 4
        hint = library.Buffer.get_ep_buffer_size_hint if mooncake else library.Buffer.get_low_latency_rdma_size_hint
        rdma = hint(case["capacity"], hidden, world, experts)
        pairs = (case["capacity"], hidden, experts) if mooncake else experts // world
    elif uccl and case["across"]:
        # As the library's own benchmark: sizes from these chunks, launches from its tables.
        pairs = library.Buffer.num_sms
        config = (library.Buffer.get_dispatch_config(world), library.Buffer.get_combine_config(world))
        chunks = library.Config(pairs, 8, 512, 16, 512)
        nvl, rdma = (int(hint(hidden * 2, world) * 1.2) + 127 & -128 for hint in (chunks.get_nvl_buffer_size_hint, chunks.get_rdma_buffer_size_hint))
    elif uccl:
        nvl = 2 * 10**9
        config = (library.Config(64 if torch.version.hip else 24, 8, 256),) * 2
    else:
        config = (library.Buffer.get_dispatch_config(world), library.Buffer.get_combine_config(world))
        for c in config:
            nvl = max(nvl, c.get_nvl_buffer_size_hint(hidden * 2, world))
            rdma = max(rdma, c.get_rdma_buffer_size_hint(hidden * 2, world))
    wanted = (low(), pairs, nvl, rdma)
    if sizes is None or sizes[:2] != wanted[:2] or sizes[2] < nvl or sizes[3] < rdma:
        if buffer is not None:
            buffer.destroy()
        buffer = sizes = None
        given = {"low_latency_mode": low(), "num_qps_per_rank": pairs, "allow_mnnvl": case["mnnvl"], "explicitly_destroy": True}
        if mooncake:
            buffer = Mooncake(rdma)
        elif uccl:
            buffer = library.Buffer(process_group("gloo"), nvl, rdma, is_intranode=nodes == 1, **given)
        else:
            buffer = library.Buffer(None, nvl, rdma, comm=comm, **given)
        sizes = wanted
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


def input(x):
    bound.input(x)


def choose(n):
    bound.choose(n)


def sent():
    """Returns the rows to dispatch in normal mode. UCCL reads the scales column by column."""
    if uccl and bound.scales is not None:
        return bound.x, bound.scales.t().contiguous().t()
    return bound.sent()


def received(x):
    global rows, scales
    rows, scales = parted(x)
    if scales is not None and not low() and not scales.is_contiguous():
        raise TypeError("scales arrived with strides (%d, %d)" % (scales.stride(0), scales.stride(1)))


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
    """Combines the received rows, or the staged rows in their place."""
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


def experts_at():
    return ids.data_ptr()


def weights_at():
    return weights.data_ptr()


def count(expert):
    return counts[expert]


def staging():
    return 0


def close():
    global buffer, group
    end(buffer)
    buffer = None
    if group is not None:
        torch.distributed.destroy_process_group()
        group = None
