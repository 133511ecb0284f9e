"""A make-believe torch over a make-believe accelerator (testdata/fakes).

It has what the adapters and the stand-in libraries use of torch: typed views of device
memory, a caching allocator, devices and streams. It computes nothing. Device memory cannot
be read at its address; the libraries beside it see it through view().
"""
import contextlib
import ctypes
import itertools
import os
import traceback
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

class _Blocks:
    """Blocks of a pool by size; what comes back once the pool is gone is the default pool's."""

    def __init__(self):
        self.free, self.gone = {}, False

    def take_back(self, size, pointer):
        (_default_pool if self.gone else self).free.setdefault(size, []).append(pointer)

    def leave(self):
        self.gone = True
        for size, pointers in self.free.items():
            _default_pool.free.setdefault(size, []).extend(pointers)


_default_pool = _Blocks()
_pools = []  # that are used in its place


def _allocate(free, size):
    if free.get(size):
        return free[size].pop()
    pointer = ctypes.c_uint64()
    alloc = _driver.cuMemAlloc_v2 if _cuda else _driver.hipMalloc
    _driver.cx_fake_relax(1)
    _check(alloc(ctypes.byref(pointer), ctypes.c_size_t(size)), "an allocation")
    _driver.cx_fake_relax(0)
    return pointer.value


class _Block:
    """Memory of the allocator, which gets it back. While a graph is captured, its memory has to be
    that of a pool: each launch of the graph writes to it."""

    def __init__(self, size):
        if cuda.current_stream().capturing() != (len(_pools) > 0):
            raise RuntimeError("memory of a graph is not in a pool, or other memory is")
        pool = _pools[-1].blocks if _pools else _default_pool
        self.pointer = _allocate(pool.free, size)
        weakref.finalize(self, pool.take_back, size, self.pointer)


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


_enqueued = {}  # callbacks of graphs, until these are destroyed
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_numbers = itertools.count(1)
_release = _Callback(lambda number: _enqueued.pop(number, None))


class _Stream:
    def __init__(self, handle):
        self.cuda_stream = handle

    def synchronize(self):
        sync = _driver.cuStreamSynchronize if _cuda else _driver.hipStreamSynchronize
        _check(sync(ctypes.c_void_p(self.cuda_stream)), "a stream")

    def capturing(self):
        return _driver.cx_fake_capturing(ctypes.c_void_p(self.cuda_stream)) != 0

    def run(self, work):
        """Does work after what was enqueued: now, or at each launch of the graph that is captured."""
        if not self.capturing():
            self.synchronize()
            return work()

        def launched(_):
            try:
                work()
            except BaseException:  # as an assertion of a kernel
                traceback.print_exc()
                os._exit(1)

        number = next(_numbers)
        _enqueued[number] = _Callback(launched)
        _check(_driver.cx_fake_enqueue(ctypes.c_void_p(self.cuda_stream), _enqueued[number], ctypes.c_void_p(number), _release), "a capture")


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

    class MemPool:
        def __init__(self):
            self.blocks = _Blocks()

        def __del__(self):
            self.blocks.leave()

    @contextlib.contextmanager
    def use_mem_pool(self, pool):
        _pools.append(pool)
        try:
            yield
        finally:
            _pools.remove(pool)


class version:
    hip = None if _cuda else "6.4"


cuda = _Cuda()
