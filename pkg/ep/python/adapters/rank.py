"""What all adapters share: rank, stream, tensors over raw pointers, and a communicator.

Go defines gather_bytes(bytes). It returns the bytes of all ranks in rank order, each preceded by
their length in eight little-endian bytes.
"""
import gc
import json
import os
import pickle
import struct
import sys

rank = world = local_rank = 0
torch = None


class Refused(Exception):
    """The library does not support the case. This is known only after its buffers are made."""


def open_torch(given):
    """Stores this rank's numbers, and makes its device and stream the current ones of torch."""
    global rank, world, local_rank, torch
    rank, world, local_rank = given["rank"], given["world"], given["local_rank"]
    import torch as imported

    torch = imported
    torch.cuda.set_device(local_rank)
    torch.cuda.set_stream(torch.cuda.ExternalStream(given["stream"]))


def keep_kernels_apart(given):
    """Sets a separate directory for the kernels that DeepEP V2 compiles on this rank.

    It is called before the import. Processes that share a directory race for it, on nodes that share
    a home too.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("EP_JIT_CACHE_DIR", os.path.join(cache, "collectivex", "deep_ep", "rank-%d" % given["rank"]))


class Memory:
    """Device memory that Go owns, with CUDA's array interface."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "strides": None, "version": 2}


def tensor(pointer, shape, dtype):
    """Returns a tensor over device memory that Go owns."""
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size == 0:
        return torch.empty(shape, dtype=dtype, device="cuda")
    return torch.as_tensor(Memory(pointer, size), device="cuda").view(dtype).view(*shape)


class Comm:
    """A communicator with mpi4py's interface, over the store of the group."""

    def Get_rank(self):
        return rank

    def Get_size(self):
        return world

    def allgather(self, value):
        joined = gather_bytes(pickle.dumps(value))  # noqa: F821
        values, at = [], 0
        while at < len(joined):
            (n,) = struct.unpack_from("<q", joined, at)
            values.append(pickle.loads(joined[at + 8 : at + 8 + n]))
            at += 8 + n
        return values

    def bcast(self, value, root=0):
        return self.allgather(value if rank == root else None)[root]

    def barrier(self):
        self.allgather(None)

    Barrier = barrier

    def Split(self, color, key):
        if len(set(self.allgather(color))) != 1:
            raise ValueError("Split supports one color for all ranks only")
        return self


comm = Comm()


def version(*distributions):
    import importlib.metadata

    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""


class Bound:
    """The bound problem as tensors; fp8 rows are (codes, scales)."""

    def __init__(self, case, x, scales, expert, weight, tokens):
        hidden, topk = case["hidden"], case["topk"]
        ids = torch.int32 if case["index_bytes"] == 4 else torch.int64
        kind = {"": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn}.get(case["cast"]) or torch.float8_e4m3fnuz
        self.tokens = tokens
        self.shape, self.kind = (tokens, hidden), kind
        self.inputs = []
        self.input(x)
        self.choose(0)
        self.scales = tensor(scales, (tokens, hidden // 128), torch.float32) if scales else None
        self.expert = tensor(expert, (tokens, topk), ids)
        self.weight = tensor(weight, (tokens, topk), torch.float32)

    def input(self, x):
        self.inputs.append(tensor(x, self.shape, self.kind))

    def choose(self, n):
        self.x = self.inputs[n]

    def sent(self):
        """Returns the rows to dispatch, with their scales if they have any."""
        return self.x if self.scales is None else (self.x, self.scales)


def parted(x):
    """Returns the rows and scales that a dispatch delivered; scales is None if there are none."""
    return x if isinstance(x, tuple) else (x, None)


def end(buffer):
    """Destroys a library's buffer after all ranks have finished their work."""
    if buffer is not None:
        torch.cuda.synchronize()
        comm.barrier()
        buffer.destroy()


pool = allocates = None  # memory of the last graph


def capturing(begins):
    """Has torch allocate from a pool of the graph while operations are captured: launches of the graph
    write there, so no other tensor may have this memory."""
    global pool, allocates
    if begins:
        pool = torch.cuda.MemPool()
        allocates = torch.cuda.use_mem_pool(pool)
        allocates.__enter__()
    else:
        allocates.__exit__(None, None, None)
        allocates = None


def settle():
    """Turns garbage collection off, so that it cannot run between two timed calls."""
    gc.collect()
    gc.freeze()
    gc.disable()
