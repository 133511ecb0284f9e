"""What the stand-ins for transfer libraries share: the calls of the driver by which they open
the memory of another process and copy it, and how they are made to fail.

CX_STANDIN_FAULT is "device:n:kind": on that device, the n-th transfer fails, never ends, or
leaves a bit flipped in the last block that it reads.
"""
import ctypes
import glob
import os

import torch

NOT_READY = 600

_cuda = torch.version.hip is None
_driver = torch._driver


class Misuse(RuntimeError):
    """A call that the order of the library's documentation does not allow."""


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def _call(cuda, hip, *args):
    code = getattr(_driver, cuda if _cuda else hip)(*args)
    if code:
        raise RuntimeError("error %d of the driver in %s" % (code, cuda if _cuda else hip))


def bus_id(device):
    name = ctypes.create_string_buffer(32)
    _call("cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", name, 32, device)
    return name.value.decode()


def room(pointer):
    """The bytes from a place on to the end of its allocation."""
    path, offset, length = ctypes.create_string_buffer(4096), ctypes.c_uint64(), ctypes.c_uint64()
    _call("cx_fake_locate", "cx_fake_locate", ctypes.c_void_p(pointer), path, 4096, ctypes.byref(offset), ctypes.byref(length))
    return length.value


def handle_of(pointer):
    handle = Handle()
    _call("cuIpcGetMemHandle", "hipIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(pointer))
    return bytes(handle)


def open_handle(handle):
    """The address here of the beginning of the allocation, in whatever way its owner named it."""
    at = ctypes.c_uint64()
    _call("cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle", ctypes.byref(at), Handle.from_buffer_copy(handle), 1)
    return at.value


def close_handle(at):
    _call("cuIpcCloseMemHandle", "hipIpcCloseMemHandle", ctypes.c_uint64(at))


def count(size, write):
    """Adds bytes to the counters of the first adapter below CX_STANDIN_ROOT, in words of 4 bytes, or as EFA does."""
    names = ("counters/port_xmit_data", "hw_counters/rdma_write_bytes") if write else ("counters/port_rcv_data", "hw_counters/rdma_read_bytes")
    for name, unit in zip(names, (4, 1)):
        for path in glob.glob(os.path.join(os.environ.get("CX_STANDIN_ROOT") or "/nowhere", "sys/class/infiniband/*/ports/1", name))[:1]:
            with open(path) as f:
                counted = int(f.read())
            with open(path + ".part", "w") as f:
                f.write("%d\n" % (counted + size // unit))
            os.rename(path + ".part", path)


class Copies:
    """A stream of copies, and what is in flight there."""

    def __init__(self, device):
        self.device, self.transfers = device, 0
        self.stream = ctypes.c_void_p()
        _call("cuStreamCreate", "hipStreamCreateWithFlags", ctypes.byref(self.stream), 1)

    def start(self, blocks):
        """Enqueues copies, each (to, from, bytes), in the order of the list. Returns what ended takes."""
        self.transfers += 1
        device, n, kind = (os.environ.get("CX_STANDIN_FAULT") or "-1:0:").split(":")
        kind = kind if (int(device), int(n)) == (self.device, self.transfers) else ""
        for to, at, size in blocks:
            _call("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", ctypes.c_uint64(to), ctypes.c_uint64(at), ctypes.c_size_t(size), self.stream)
        event = ctypes.c_void_p()
        _call("cuEventCreate", "hipEventCreateWithFlags", ctypes.byref(event), 2)
        _call("cuEventRecord", "hipEventRecord", event, self.stream)
        return event, kind, blocks[-1][0] if blocks else 0

    def ended(self, transfer):
        """Whether it has ended, and whether it has failed."""
        event, kind, last = transfer
        code = getattr(_driver, "cuEventQuery" if _cuda else "hipEventQuery")(event)
        if code == NOT_READY or kind == "hang":
            return False, False
        _call("cuEventDestroy_v2", "hipEventDestroy", event)
        if kind == "flip":
            ctypes.c_uint8.from_address(torch.mapped(torch.locate(last + 7))).value ^= 1
        return True, code != 0 or kind == "fail"
