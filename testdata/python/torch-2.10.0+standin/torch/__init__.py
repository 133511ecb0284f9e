"""A make-believe torch over a make-believe accelerator (testdata/fakes).

It has what the adapters and the stand-in libraries use of torch: typed views of device
memory, a caching allocator, devices and streams. It computes nothing. Device memory cannot
be read at its address; the libraries beside it see it through view().
"""
import ctypes
import os
import weakref

__version__ = "2.10.0+standin"

_cuda = "CX_CUDA_LIB" in os.environ and "CX_STANDIN_HIP" not in os.environ
_driver = ctypes.CDLL(os.environ["CX_CUDA_LIB" if _cuda else "CX_HIP_LIB"])
_c = ctypes.CDLL(os.environ["CX_STANDIN_LIB"])
_c.standin_map.restype = ctypes.c_void_p
_maps = {}


def _check(code, what):
    if code:
        raise RuntimeError("CUDA error %d in %s" % (code, what))


def locate(pointer):
    """The file in which device memory is, and its offset there."""
    path = ctypes.create_string_buffer(4096)
    offset, length = ctypes.c_uint64(), ctypes.c_uint64()
    _check(_driver.cx_fake_locate(ctypes.c_void_p(pointer), path, 4096, ctypes.byref(offset), ctypes.byref(length)), "cx_fake_locate")
    return path.value.decode(), offset.value


def mapped(place):
    """The address in this process of a place that locate found in any."""
    path, offset = place
    if path not in _maps:
        base = _c.standin_map(path.encode())
        if not base:
            raise RuntimeError("cannot map %s" % path)
        _maps[path] = base
    return _maps[path] + offset


class dtype:
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return "torch." + self.name


uint8 = dtype("uint8", 1)
bool = dtype("bool", 1)
int32 = int = dtype("int32", 4)
int64 = dtype("int64", 8)
float32 = float = dtype("float32", 4)
bfloat16 = dtype("bfloat16", 2)
float8_e4m3fn = dtype("float8_e4m3fn", 1)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", 1)

_free = {}  # the allocator's: blocks by size


def _allocate(size):
    if _free.get(size):
        return _free[size].pop()
    pointer = ctypes.c_uint64()
    alloc = _driver.cuMemAlloc_v2 if _cuda else _driver.hipMalloc
    _check(alloc(ctypes.byref(pointer), ctypes.c_size_t(size)), "an allocation")
    return pointer.value


class _Block:
    """Memory of the allocator, which gets it back."""

    def __init__(self, size):
        self.pointer = _allocate(size)
        weakref.finalize(self, _free.setdefault(size, []).append, self.pointer)


class Tensor:
    def __init__(self, pointer, shape, dtype, owner, strides=None):
        self.pointer, self.shape, self.dtype, self.owner = pointer, tuple(shape), dtype, owner
        self.strides = strides or _contiguous(shape)

    def data_ptr(self):
        return self.pointer if self.numel() else 0

    def size(self, i):
        return self.shape[i]

    def stride(self, i):
        return self.strides[i]

    def dim(self):
        return len(self.shape)

    def numel(self):
        n = 1
        for s in self.shape:
            n *= s
        return n

    def element_size(self):
        return self.dtype.itemsize

    def is_contiguous(self):
        return self.numel() == 0 or self.strides == _contiguous(self.shape)

    def view(self, *of):
        if not self.is_contiguous():
            raise RuntimeError("view of a tensor that is not contiguous")
        if isinstance(of[0], dtype):
            size = self.shape[-1] * self.dtype.itemsize
            if size % of[0].itemsize:
                raise RuntimeError("the last dimension does not divide")
            return Tensor(self.pointer, self.shape[:-1] + (size // of[0].itemsize,), of[0], self.owner)
        n = 1
        for s in of:
            n *= s
        if n != self.numel():
            raise RuntimeError("shape %s is invalid for %d elements" % (of, self.numel()))
        return Tensor(self.pointer, of, self.dtype, self.owner)

    def transpose(self, a, b):
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
        return Tensor(self.pointer, shape, self.dtype, self.owner, tuple(strides))

    def t(self):
        return self.transpose(0, 1)

    def contiguous(self):
        if self.is_contiguous():
            return self
        cuda.synchronize()
        copy, size, (rows, columns) = empty(self.shape, dtype=self.dtype, device="cuda"), self.element_size(), self.shape
        to, from_ = (mapped(locate(t.pointer)) for t in (copy, self))
        for i in range(rows * columns):
            at = i // columns * self.strides[0] + i % columns * self.strides[1]
            ctypes.memmove(to + i * size, from_ + at * size, size)
        return copy

    def tolist(self):
        cuda.synchronize()
        kind = {int32: ctypes.c_int32, int64: ctypes.c_int64}[self.dtype]
        return list((kind * self.numel()).from_address(mapped(locate(self.pointer))))

    def __getitem__(self, rows):
        first, last, step = rows.indices(self.shape[0])
        if step != 1:
            raise RuntimeError("rows one behind the other alone")
        offset = first * self.strides[0] * self.dtype.itemsize
        return Tensor(self.pointer + offset, (max(0, last - first),) + self.shape[1:], self.dtype, self.owner, self.strides)


def _contiguous(shape):
    strides, n = [], 1
    for s in reversed(shape):
        strides.insert(0, n)
        n *= s
    return tuple(strides)


def empty(*shape, dtype=float32, device=None):
    if device not in ("cuda", "cuda:%d" % cuda.current_device()):
        raise RuntimeError("a tensor on device %r" % (device,))
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    n = dtype.itemsize
    for s in shape:
        n *= s
    block = _Block(max(n, 1))
    return Tensor(block.pointer, shape, dtype, block)


def full(shape, value, dtype=None, device=None):
    tensor, kind = empty(shape, dtype=dtype, device=device), {int32: ctypes.c_int32, int64: ctypes.c_int64}[dtype]
    (kind * tensor.numel()).from_address(mapped(locate(tensor.pointer)))[:] = [value] * tensor.numel()
    return tensor


def as_tensor(of, device=None):
    given = of.__cuda_array_interface__
    if given["typestr"] != "|u1" or given["strides"] is not None or not given["data"][0]:
        raise RuntimeError("an array interface that this torch does not know: %r" % (given,))
    locate(given["data"][0])
    return Tensor(given["data"][0], given["shape"], uint8, of)


class device:
    def __init__(self, type):
        self.type = type


class _Stream:
    def __init__(self, handle):
        self.cuda_stream = handle

    def synchronize(self):
        sync = _driver.cuStreamSynchronize if _cuda else _driver.hipStreamSynchronize
        _check(sync(ctypes.c_void_p(self.cuda_stream)), "a stream")


class _Cuda:
    _device = None
    _stream = None
    _default = []  # what was enqueued in the default stream, which nothing but synchronize waits for

    def set_device(self, device):
        self._device = device

    def current_device(self):
        if self._device is None:
            raise RuntimeError("no device was set")
        return self._device

    def ExternalStream(self, handle):
        return _Stream(handle)

    def set_stream(self, stream):
        self._stream = stream

    def current_stream(self):
        if self._stream is None or not self._stream.cuda_stream:
            raise RuntimeError("the work of an adapter goes to the stream of Go, and torch's is the default one")
        return self._stream

    def synchronize(self):
        self.current_stream().synchronize()
        while self._default:
            self._default.pop(0)()

    def get_device_name(self):
        return "Stand-in"


class version:
    hip = None if _cuda else "6.4"


cuda = _Cuda()
