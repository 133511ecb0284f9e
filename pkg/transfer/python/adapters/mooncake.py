"""Mooncake's transfer engine, between processes of a host or GPUs of two nodes."""
import ctypes
import json
from importlib.metadata import distributions

from collectivex_requests import taken, version

address = engine = peer = pool = None


def transfer_engine():
    """Imports Mooncake. A wheel for CUDA 12 needs its runtime library, which Python packages have where
    the loader does not look."""
    try:
        from mooncake.engine import TransferEngine
    except ImportError:
        runtime = [f for d in distributions(name="nvidia-cuda-runtime-cu12") for f in d.files or () if f.name == "libcudart.so.12"]
        if not runtime:
            raise
        ctypes.CDLL(str(runtime[0].locate()), mode=ctypes.RTLD_GLOBAL)
        from mooncake.engine import TransferEngine
    return TransferEngine


def open(text):
    """Starts the engine, which listens on a port that it chooses."""
    global address, engine
    given = json.loads(text)
    address = given["address"]
    engine = transfer_engine()()
    status = engine.initialize(address + ":0", "P2PHANDSHAKE", given["protocol"], given["filter"])
    return json.dumps({"status": status, "version": version("mooncake")})


def register(at, size):
    global pool
    pool = at
    return engine.register_memory(at, size)


def unregister():
    return engine.unregister_memory(pool)


def metadata(_):
    return "%s:%d" % (address, engine.get_rpc_port())


def connect(text):
    """Stores the peer's address; the engine connects at the first request."""
    global peer
    peer = text


def disconnect():
    return 0


def post(request, first, end, write):
    move = engine.batch_transfer_async_write if write else engine.batch_transfer_async_read
    return move(peer, *taken(request, first, end)) or -1


def poll(batch):
    """Waits for the batch."""
    return engine.get_batch_transfer_status([batch]) or 1
