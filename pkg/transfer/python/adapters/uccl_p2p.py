"""UCCL's P2P endpoint, between GPUs of a host: copies between a pool here and one that UCCL opens
by its handle, anew for each block."""
import json
import struct

from collectivex_requests import taken, version

endpoint = connection = info = None
handle = tail = None  # of the peer's pool

# IpcTransferInfo of p2p/engine.h is a handle of 64 bytes, an offset and a size of 8 bytes each, and
# fields that are equal for all blocks of a pool.
PLACE, BLOB = struct.Struct("=QQ"), 104


def open(text):
    global endpoint
    given = json.loads(text)
    import torch  # before UCCL, which otherwise finds no device with ROCm

    torch.cuda.set_device(given["device"])
    from uccl import p2p

    endpoint = p2p.Endpoint(given["device"])
    if given["rank"] == 0:
        checked("start_passive_accept", endpoint.start_passive_accept())
    return json.dumps({"version": version("uccl")})


def checked(call, ok, result=None):
    if not ok:
        raise RuntimeError(call + " of UCCL failed")
    return result


def register(at, size):
    """Creates the handle of a pool; UCCL keeps no state. The handle names the allocation that holds
    the pool's address rounded down to 1 MiB, so a pool must begin at such an address."""
    global info
    info = checked("advertise_ipc", *endpoint.advertise_ipc(0, at, size))
    if len(info) != BLOB or PLACE.unpack_from(info, 64) != (0, size):
        raise RuntimeError("advertise_ipc of UCCL returned an unknown format for %d bytes at %#x: use UCCL at da914a20" % (size, at))


def unregister():
    global info
    info = None


def metadata(_):
    return json.dumps({"endpoint": endpoint.get_metadata().hex(), "pool": info.hex()})


def connect(text):
    global connection, handle, tail
    of = json.loads(text)
    _, _, device = endpoint.parse_metadata(bytes.fromhex(of["endpoint"]))
    connection = checked("connect_local", *endpoint.connect_local(device))
    pool = bytes.fromhex(of["pool"])
    handle, tail = pool[:64], pool[64 + PLACE.size :]


def disconnect():
    checked("remove_remote_endpoint", endpoint.remove_remote_endpoint(connection))


def post(request, first, end, write):
    local, remote, sizes = taken(request, first, end)
    move = endpoint.writev_ipc_async if write else endpoint.readv_ipc_async
    blobs = [handle + PLACE.pack(*place) + tail for place in zip(remote, sizes)]
    return checked(move.__name__, *move(connection, local, sizes, blobs))


def poll(batch):
    """Polls a batch. UCCL forgets a batch when it ends, and does not report failures."""
    return checked("poll_async", *endpoint.poll_async(batch))
