"""MoRI-IO: over XGMI between GPUs of a host, by copies between a pool here and one that MoRI opens by
its handle when a session begins; over RDMA between GPUs of two nodes."""
import json
import sys

from collectivex_requests import taken, version

io = engine = device = memory = peer = session = xgmi = None
statuses = {}  # by batch; MoRI writes a status until its transfer ends
made = 0


def open(text):
    global io, engine, device, xgmi
    given = json.loads(text)
    import torch

    device, xgmi = given["device"], given["lane"] == "peer"
    torch.cuda.set_device(device)
    import mori.io

    io = mori.io
    engine = io.IOEngine("rank-%d" % given["rank"], io.IOEngineConfig(host=given["address"], port=0))
    if not xgmi:
        config = io.RdmaBackendConfig(
            qp_per_transfer=1, post_batch_size=-1, num_worker_threads=1, poll_cq_mode=io.PollCqMode.POLLING, enable_notification=False)
        engine.create_backend(io.BackendType.RDMA, config)
    return json.dumps({"version": version("mori")})


def register(at, size):
    """Over XGMI, creates a backend for each pool, because only the removal of a backend closes the peer's
    pool."""
    global memory
    if xgmi:
        engine.create_backend(io.BackendType.XGMI)
    memory = engine.register_memory(at, size, device, io.MemoryLocationType.GPU)
    if xgmi and not any(memory.ipc_handle):
        raise RuntimeError("register_memory of MoRI returned no IPC handle for %d bytes at %#x" % (size, at))


def unregister():
    engine.deregister_memory(memory)
    if xgmi:
        engine.remove_backend(io.BackendType.XGMI)


def metadata(_):
    return json.dumps({"engine": engine.get_engine_desc().pack().hex(), "memory": memory.pack().hex()})


def connect(text):
    global peer, session
    of = json.loads(text)
    peer = io.EngineDesc.unpack(bytes.fromhex(of["engine"]))
    engine.register_remote_engine(peer)
    session = engine.create_session(memory, io.MemoryDesc.unpack(bytes.fromhex(of["memory"])))
    if session is None:
        raise RuntimeError("create_session of MoRI returned no session: the memory of the peer is out of reach")


def disconnect():
    global session
    session = None
    engine.deregister_remote_engine(peer)
    if xgmi:
        engine.remove_backend(io.BackendType.XGMI)


def post(request, first, end, write):
    global made
    move = session.batch_write if write else session.batch_read
    made += 1
    statuses[made] = move(*taken(request, first, end), session.allocate_transfer_uid())
    return made


def poll(batch):
    code = statuses[batch].Code()
    if code == io.StatusCode.IN_PROGRESS:
        return 0
    status = statuses.pop(batch)
    if code == io.StatusCode.SUCCESS:
        return 1
    print("MoRI:", status.Message(), file=sys.stderr)
    return int(code)
