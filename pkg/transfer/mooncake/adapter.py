"""Calls Mooncake's transfer engine for Go. Functions take and return integers unless said
otherwise; a status is 0 or negative."""
import ctypes
import json
from importlib.metadata import packages_distributions, version

engine = peer = None
requests = {}
made = 0


def open(_):
    """Starts the engine, which listens on a port that it chooses. Returns JSON."""
    global engine
    from mooncake.engine import TransferEngine

    engine = TransferEngine()
    status = engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "")
    names = packages_distributions().get("mooncake", [])
    return json.dumps({"status": status, "port": engine.get_rpc_port(), "version": version(names[0]) if names else "unknown"})


def register(at, size):
    return engine.register_memory(at, size)


def unregister(at):
    return engine.unregister_memory(at)


def connect(port):
    global peer
    peer = "127.0.0.1:%d" % port


def prepare(at, blocks):
    """Makes the lists of a request from an array of three numbers a block: its address here,
    its address in the peer, and its bytes. Returns the request's number."""
    global made
    words = (ctypes.c_uint64 * (3 * blocks)).from_address(at)[:]
    made += 1
    requests[made] = (words[0::3], words[1::3], words[2::3])
    return made


def post(request, first, end, write):
    """Posts some blocks of a request. Returns a batch, 0 for none."""
    move = engine.batch_transfer_async_write if write else engine.batch_transfer_async_read
    return move(peer, *(of[first:end] for of in requests[request]))


def wait(batch):
    """Waits for a batch. Returns its status."""
    return engine.get_batch_transfer_status([batch])


def release(request):
    del requests[request]
