"""Mooncake's transfer engine, between processes of a host."""
import json

from collectivex_requests import taken, version

engine = peer = pool = None


def open(_):
    """Starts the engine, which listens on a port that it chooses."""
    global engine
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    return json.dumps({"status": engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", ""), "version": version("mooncake")})


def register(at, size):
    global pool
    pool = at
    return engine.register_memory(at, size)


def unregister():
    return engine.unregister_memory(pool)


def metadata(_):
    return str(engine.get_rpc_port())


def connect(port):
    """Stores the peer's address; the engine connects at the first request."""
    global peer
    peer = "127.0.0.1:" + port


def disconnect():
    return 0


def post(request, first, end, write):
    move = engine.batch_transfer_async_write if write else engine.batch_transfer_async_read
    return move(peer, *taken(request, first, end)) or -1


def poll(batch):
    """Waits for the batch."""
    return engine.get_batch_transfer_status([batch]) or 1
