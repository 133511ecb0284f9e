"""Calls the stand-ins for UCCL P2P (uccl), MoRI-IO (mori) and Mooncake's transfer engine (mooncake) as
their documentation forbids it, and prints a line for each: what was done, and what came of it."""
import os
import sys

POOL = 2 << 20


def start(device):
    """The driver, and a pool on a device."""
    import torch

    torch._driver.hipInit(0)
    torch._driver.hipSetDevice(device)
    torch.cuda.set_device(device)
    return torch._allocate({}, POOL)


def peer(serve):
    """Runs serve in another process, which ends with this one. Returns what serve returns."""
    results, result = os.pipe()
    alive, _ = os.pipe()
    if os.fork() == 0:
        os.close(_)
        os.write(result, repr(serve()).encode())
        os.close(result)
        os.read(alive, 1)
        os._exit(0)
    os.close(result)
    return eval(os.fdopen(results, "rb").read())


def show(what, call):
    try:
        print("%s: %s" % (what, call()))
    except Exception as e:
        print("%s: %s: %s" % (what, type(e).__name__, e))


def uccl():
    def serve():
        at = start(0)
        from uccl import p2p

        endpoint, deaf = p2p.Endpoint(0), p2p.Endpoint(2)
        endpoint.start_passive_accept()
        assert at % (1 << 20) == 0
        _, info = endpoint.advertise_ipc(0, at, POOL // 2)
        try:
            endpoint.advertise_ipc(0, at, POOL + 1)
        except Exception as e:
            return endpoint.get_metadata(), deaf.get_metadata(), info, str(e)

    of, deaf, info, long = peer(serve)
    at = start(1)
    from uccl import p2p

    endpoint = p2p.Endpoint(1)
    _, _, device = endpoint.parse_metadata(of)
    show("metadata are cut", lambda: endpoint.parse_metadata(of[:-1]))
    print("more is advertised than there is:", long)
    show("a transfer before a connection", lambda: endpoint.readv_ipc_async(1, [at], [8], [info]))
    show("nobody is there", lambda: endpoint.connect_local("0000:ff:00.0"))
    show("nobody accepts", lambda: endpoint.connect_local(endpoint.parse_metadata(deaf)[2]))
    _, to = endpoint.connect_local(device)
    place = lambda offset: info[:64] + offset.to_bytes(8, "little") + info[72:]
    show("past the end of what was advertised", lambda: endpoint.readv_ipc_async(to, [at], [16], [place(POOL // 2 - 8)]))
    show("a handle that nobody made", lambda: endpoint.readv_ipc_async(to, [at], [8], [b"x" + info[1:]]))
    show("lists differ", lambda: endpoint.writev_ipc_async(to, [at], [8, 8], [info]))
    show("past the end here", lambda: endpoint.readv_ipc_async(to, [at + POOL - 8], [16], [info]))
    show("memory that is not the device's", lambda: endpoint.readv_ipc_async(to, [4096], [8], [info]))
    ok, transfer = endpoint.readv_ipc_async(to, [at], [8], [info])
    show("removed in flight", lambda: endpoint.remove_remote_endpoint(to))
    while not endpoint.poll_async(transfer)[1]:
        pass
    show("polled when forgotten", lambda: endpoint.poll_async(transfer))
    show("removed", lambda: endpoint.remove_remote_endpoint(to))
    show("removed twice", lambda: endpoint.remove_remote_endpoint(to))


def mori():
    def serve():
        at = start(0)
        import mori.io as io

        engine = io.IOEngine("rank-0", io.IOEngineConfig())
        early = engine.register_memory(at, POOL, 0, io.MemoryLocationType.GPU)
        engine.create_backend(io.BackendType.XGMI)
        memory = engine.register_memory(at, POOL, 0, io.MemoryLocationType.GPU)
        return engine.get_engine_desc().pack(), memory.pack(), early.pack()

    of, there, early = peer(serve)
    at = start(1)
    import mori.io as io

    engine = io.IOEngine("rank-1", io.IOEngineConfig())
    there, early = io.MemoryDesc.unpack(there), io.MemoryDesc.unpack(early)
    show("metadata are cut", lambda: io.EngineDesc.unpack(of[:10]))
    show("a backend without adapters", lambda: engine.create_backend(io.BackendType.RDMA))
    here = engine.register_memory(at, POOL, 1, io.MemoryLocationType.GPU)
    show("a session without a backend", lambda: engine.create_session(here, there))
    engine.create_backend(io.BackendType.XGMI)
    show("a session with an engine that was not registered", lambda: engine.create_session(here, there))
    engine.register_remote_engine(io.EngineDesc.unpack(of))
    show("memory that was registered before the backend", lambda: engine.create_session(here, early))
    there.handle = "78" + there.handle[2:]
    show("a handle that nobody made", lambda: engine.create_session(here, there))
    there.handle = "73" + there.handle[2:]
    show("more is registered than there is", lambda: engine.register_memory(at, POOL + 1, 1, io.MemoryLocationType.GPU))
    show("memory that is not the device's", lambda: engine.register_memory(4096, 8, 1, io.MemoryLocationType.GPU))
    session = engine.create_session(here, there)
    show("past the end there", lambda: session.batch_read([0], [POOL - 8], [16], 1))
    show("past the end here", lambda: session.batch_write([POOL - 8], [0], [16], 1))
    show("lists differ", lambda: session.batch_read([0, 8], [0], [8], 1))
    status = session.batch_read([0], [0], [8], session.allocate_transfer_uid())
    show("removed in flight", lambda: engine.remove_backend(io.BackendType.XGMI))
    show("deregistered in flight", lambda: engine.deregister_memory(here))
    while status.InProgress():
        pass
    show("it ended", status.Succeeded)
    engine.deregister_memory(here)
    show("deregistered twice", lambda: engine.deregister_memory(here))
    show("a session that outlives its memory", lambda: session.batch_read([0], [0], [8], 1))
    engine.remove_backend(io.BackendType.XGMI)
    show("a session that outlives its backend", lambda: session.batch_read([0], [0], [8], 1))


def mori_between_nodes():
    os.environ["CX_STANDIN_HCAS"], os.environ["CX_STANDIN_WR_BYTES"] = "mlx5_0", "4096"

    def engine_on(device, key):
        at = start(device)
        import mori.io as io

        engine = io.IOEngine(key, io.IOEngineConfig("127.0.0.1", 0))
        engine.create_backend(io.BackendType.RDMA)
        return io, engine, [engine.register_memory(at, POOL, device, io.MemoryLocationType.GPU) for _ in range(2)]

    def serve():
        _, engine, memory = engine_on(0, "rank-0")
        engine.deregister_memory(memory[1])
        return engine.get_engine_desc().pack(), memory[0].pack(), memory[1].pack()

    of, there, gone = peer(serve)
    io, engine, memory = engine_on(1, "rank-1")
    there, gone = io.MemoryDesc.unpack(there), io.MemoryDesc.unpack(gone)
    show("memory has a handle", lambda: any(memory[0].ipc_handle))
    show("a session with an engine that was not registered", lambda: engine.create_session(memory[0], there))
    engine.register_remote_engine(io.EngineDesc.unpack(of))
    show("memory that the peer has deregistered", lambda: engine.create_session(memory[0], gone))
    session = engine.create_session(memory[0], there)
    show("more than a work request takes", lambda: session.batch_read([0], [0], [4104], 1).Message())


def mooncake():
    os.environ.update(CX_STANDIN_HCAS="mlx5_0", MC_FORCE_HCA="1", MC_USE_NVLINK_IPC="0", MC_USE_HIP_IPC="0")

    def engine_on(device):
        at = start(device)
        from mooncake.engine import TransferEngine

        engine = TransferEngine()
        missing = engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "rdma", "mlx5_1")
        assert missing == -1 and engine.initialize("127.0.0.1:0", "P2PHANDSHAKE", "rdma", "mlx5_0") == 0
        engine.register_memory(at, POOL // 2)
        return at, engine

    def serve():
        at, engine = engine_on(0)
        return at, "127.0.0.1:%d" % engine.get_rpc_port()

    there, target = peer(serve)
    at, engine = engine_on(1)
    show("registered twice", lambda: engine.register_memory(at, 8))
    show("more is registered than there is", lambda: engine.register_memory(at + POOL // 2, POOL))
    show("nobody is there", lambda: engine.batch_transfer_async_read("127.0.0.1:1", [at], [there], [8]))
    show("lists differ", lambda: engine.batch_transfer_async_write(target, [at, at], [there], [8]))
    show("local memory that is not registered", lambda: engine.batch_transfer_async_read(target, [at + POOL // 2], [there], [8]))
    show("remote memory that is not registered", lambda: engine.get_batch_transfer_status([engine.batch_transfer_async_read(target, [at], [there + POOL // 2], [8])]))
    batch = engine.batch_transfer_async_read(target, [at], [there], [8])
    show("it ended", lambda: engine.get_batch_transfer_status([batch]))
    show("asked when forgotten", lambda: engine.get_batch_transfer_status([batch]))
    engine.unregister_memory(at)
    show("deregistered twice", lambda: engine.unregister_memory(at))


{"uccl": uccl, "mori": mori, "mori between nodes": mori_between_nodes, "mooncake": mooncake}[sys.argv[1]]()
