"""What every adapter has: its rank, its stream, tensors over raw pointers, and a communicator.

Go defines gather_bytes(bytes): the bytes of all ranks, in rank order, each behind its length
as eight little-endian bytes.
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
    """The library cannot do the case exactly, which shows only once its buffers are made."""


def open_torch(given):
    """Takes the place of this rank, and makes its device and its stream torch's current ones."""
    global rank, world, local_rank, torch
    rank, world, local_rank = given["rank"], given["world"], given["local_rank"]
    import torch as imported

    torch = imported
    torch.cuda.set_device(local_rank)
    torch.cuda.set_stream(torch.cuda.ExternalStream(given["stream"]))


def keep_kernels_apart(given):
    """Gives DeepEP V2 a directory for the kernels that it compiles, of this local rank alone, before its import.

    Processes that share one race for it.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("EP_JIT_CACHE_DIR", os.path.join(cache, "collectivex", "deep_ep", "rank-%d" % given["local_rank"]))


class Memory:
    """Device memory that Go owns, as the array interface of CUDA describes it."""

    def __init__(self, pointer, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "strides": None, "version": 2}


def tensor(pointer, shape, dtype):
    """A tensor over device memory of Go."""
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size == 0:
        return torch.empty(shape, dtype=dtype, device="cuda")
    return torch.as_tensor(Memory(pointer, size), device="cuda").view(dtype).view(*shape)


class Comm:
    """A communicator as mpi4py's, over the store of the group."""

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
            raise ValueError("this communicator is not divided: all its ranks are of one group")
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
    """The problem that is bound, as tensors; fp8 rows are (codes, scales)."""

    def __init__(self, case, x, scales, expert, weight, tokens):
        hidden, topk = case["hidden"], case["topk"]
        ids = torch.int32 if case["index_bytes"] == 4 else torch.int64
        kind = {"": torch.bfloat16, "e4m3fn": torch.float8_e4m3fn}.get(case["cast"]) or torch.float8_e4m3fnuz
        self.tokens = tokens
        self.x = tensor(x, (tokens, hidden), kind)
        self.scales = tensor(scales, (tokens, hidden // 128), torch.float32) if scales else None
        self.expert = tensor(expert, (tokens, topk), ids)
        self.weight = tensor(weight, (tokens, topk), torch.float32)

    def sent(self):
        """What a dispatch takes."""
        return self.x if self.scales is None else (self.x, self.scales)


def parted(x):
    """The rows and the scales of what a dispatch returns, which is rows alone without scales."""
    return x if isinstance(x, tuple) else (x, None)


def end(buffer):
    """Destroys the buffer of a library, after all work of all ranks."""
    if buffer is not None:
        torch.cuda.synchronize()
        comm.barrier()
        buffer.destroy()


def settle():
    """Before anything is timed: no garbage collection comes between two calls."""
    gc.collect()
    gc.freeze()
    gc.disable()
