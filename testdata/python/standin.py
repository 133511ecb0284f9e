"""What the stand-in libraries share: their ranks meet, see each other's memory, and can be
made to fail.

CX_STANDIN_FAULT is "rank:n:kind": in that rank, the n-th dispatch or combine dies, raises,
hangs, or hangs with the GIL. CX_STANDIN_PEERS is how many ranks a node has (8).
"""
import ctypes
import mmap
import os
import pickle
import random
import tempfile
import time

import torch
import torch.distributed as dist

SLOT = 1 << 16

PEERS = int(os.environ.get("CX_STANDIN_PEERS", "8"))

order = random.Random(67)


def mixed(rows):
    """The rows in another order at each call: atomic counters decide it in the real libraries."""
    rows = list(rows)
    order.shuffle(rows)
    return rows


def meeting_place(world):
    """The path of a file where a group can meet."""
    fd, path = tempfile.mkstemp(dir=os.environ["CX_FAKE_DIR"])
    os.ftruncate(fd, SLOT * (1 + world))
    os.close(fd)
    return path


def group_of(comm):
    """The group of a communicator with Get_rank, Get_size and allgather."""
    rank, world = comm.Get_rank(), comm.Get_size()
    return Group(rank, world, comm.allgather(meeting_place(world) if rank == 0 else None)[0])


class Members:
    """A group of torch.distributed as a communicator."""

    def __init__(self, group):
        assert isinstance(group, dist.ProcessGroup), "not a group of torch.distributed"
        self.group = group

    def Get_rank(self):
        return dist.get_rank(self.group)

    def Get_size(self):
        return dist.get_world_size(self.group)

    def allgather(self, value):
        values = [None] * self.Get_size()
        dist.all_gather_object(values, value, group=self.group)
        return values


class Group:
    """The ranks of a library, which meet in a file."""

    def __init__(self, rank, world, path):
        self.rank, self.world = rank, world
        with open(path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), 0)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.operations = 0

    def barrier(self):
        torch._c.standin_barrier(ctypes.c_void_p(self.address), self.world)

    def exchange(self, value):
        """The values of all ranks, valid until the barrier that the caller has to call."""
        data = pickle.dumps(value)
        assert len(data) + 8 <= SLOT
        at = SLOT * (1 + self.rank)
        self.memory[at : at + 8 + len(data)] = len(data).to_bytes(8, "little") + data
        self.barrier()
        values = []
        for r in range(self.world):
            at = SLOT * (1 + r)
            n = int.from_bytes(self.memory[at : at + 8], "little")
            values.append(pickle.loads(self.memory[at + 8 : at + 8 + n]))
        return values

    def begin(self):
        """Begins an operation that waits: what was enqueued before it is done, and its fault strikes."""
        torch.cuda.current_stream().synchronize()
        self._strike()

    def run(self, work):
        """Does an operation that can be captured: now, or at each launch of its graph."""

        def whole():
            self._strike()
            work()

        torch.cuda.current_stream().run(whole)

    def _strike(self):
        self.operations += 1
        rank, n, kind = (os.environ.get("CX_STANDIN_FAULT") or "-1:0:").split(":")
        if int(rank) != self.rank or int(n) != self.operations:
            return
        if kind == "die":
            ctypes.string_at(8)
        if kind == "raise":
            raise RuntimeError("DeepEP error: CPU recv timeout\n/private/path")
        if kind == "hang":
            while True:
                time.sleep(3600)
        if kind == "gil":
            ctypes.PyDLL(None).pause()


def place(tensor):
    """Where a tensor is, for other ranks; None where it is empty."""
    return torch.locate(tensor.data_ptr()) if tensor is not None and tensor.numel() else None


def read(kind, tensor):
    """The numbers of a contiguous tensor, flat, as they are now."""
    assert tensor.is_contiguous()
    if tensor.numel() == 0:
        return []
    return list((kind * tensor.numel()).from_address(torch.mapped(place(tensor))))


def write(kind, tensor, values):
    assert tensor.is_contiguous() and len(values) == tensor.numel()
    if values:
        (kind * len(values)).from_address(torch.mapped(place(tensor)))[:] = values


def address(tensor, row=0):
    """The address of a row of a contiguous tensor."""
    return torch.mapped(place(tensor)) + row * tensor.strides[0] * tensor.element_size()


def copy(to, from_, size):
    ctypes.memmove(to, from_, size)


def total(to, rows, weights, hidden):
    """Writes the sum of rows, given by their addresses."""
    torch._c.standin_sum(
        ctypes.c_void_p(to), (ctypes.c_void_p * len(rows))(*rows),
        (ctypes.c_float * len(weights))(*weights) if weights is not None else None, len(rows), ctypes.c_int64(hidden))


def cast(codes, scales, columns, row, hidden):
    torch._c.standin_cast(ctypes.c_void_p(codes), ctypes.c_void_p(scales), ctypes.c_int64(columns), ctypes.c_void_p(row), ctypes.c_int64(hidden))
