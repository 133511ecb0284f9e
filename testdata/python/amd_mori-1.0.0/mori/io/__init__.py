"""A make-believe MoRI-IO of 624002c8 (python/mori/io/engine.py, src/io/xgmi, src/io/rdma), over XGMI
between two GPUs of a host, or over RDMA between GPUs of two nodes.

Over XGMI it copies as the real one does: a session opens the handle of the peer's allocation, and the
backend closes it when it is removed. Over RDMA a session asks the peer for the region, and the nodes
are this host. CX_STANDIN_HCAS lists its adapters, and CX_STANDIN_WR_BYTES is the limit of a work
request (1 GiB). It refuses, as Misuse, what the real one answers with a crash or wrong data: memory
that is not registered, a place outside of it, a session that outlives its memory or its backend, and a
status that is dropped while its transfer is in flight.
"""
import enum
import json
import os
import socket

import torch
from standin_copy import Copies, Misuse, bus_id, close_handle, count, handle_of, open_handle, room


class StatusCode(enum.IntEnum):
    SUCCESS = 0
    INIT = 1
    IN_PROGRESS = 2
    ERR_INVALID_ARGS = 11
    ERR_NOT_FOUND = 12
    ERR_RDMA_OP = 13
    ERR_BAD_STATE = 14
    ERR_GPU_OP = 15


class BackendType(enum.Enum):
    XGMI = 1
    RDMA = 2


class MemoryLocationType(enum.Enum):
    CPU = 0
    GPU = 1


class PollCqMode(enum.Enum):
    POLLING = 0
    EVENT = 1


class RdmaBackendConfig:
    def __init__(self, qp_per_transfer=1, post_batch_size=-1, num_worker_threads=-1, poll_cq_mode=PollCqMode.POLLING, enable_notification=True,
                 notif_per_qp=1024, enable_transfer_chunking=False, chunk_bytes=65536, max_chunks_per_transfer=64, num_nics_per_transfer=1):
        if min(qp_per_transfer, max_chunks_per_transfer, num_nics_per_transfer) < 1:
            raise RuntimeError("Invalid RDMA config")


class IOEngineConfig:
    def __init__(self, host="", port=0):
        self.host, self.port = host, port


class _Desc:
    """Values that engines of other processes unpack."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def pack(self):
        return json.dumps(self.__dict__).encode()

    @classmethod
    def unpack(cls, data):
        return cls(**json.loads(data))

    def __eq__(self, other):
        return type(self) is type(other) and self.__dict__ == other.__dict__


class EngineDesc(_Desc):
    pass


class MemoryDesc(_Desc):
    @property
    def ipc_handle(self):
        return bytes.fromhex(self.handle)


class TransferStatus:
    def __init__(self, session=None, transfer=None, code=StatusCode.IN_PROGRESS, message=""):
        self.session, self.transfer, self.code, self.message = session, transfer, code, message

    def Code(self):
        if self.code == StatusCode.IN_PROGRESS:
            done, failed = self.session.backend.copies.ended(self.transfer)
            if done:
                self.code = self.session.backend.error if failed else StatusCode.SUCCESS
                self.message = "the transfer failed" if failed else ""
                self.session.flying -= 1
        return self.code

    def Message(self):
        return self.message

    def InProgress(self):
        return self.Code() == StatusCode.IN_PROGRESS

    def Succeeded(self):
        return self.Code() == StatusCode.SUCCESS

    def Failed(self):
        return self.Code() > 10

    def __del__(self):
        if self.code == StatusCode.IN_PROGRESS:
            os.abort()  # the transfer writes into it when it ends


class IOEngineSession:
    def __init__(self, engine, backend, local, remote, remote_at):
        self.engine, self.backend, self.local, self.remote, self.remote_at = engine, backend, local, remote, remote_at
        self.flying = 0

    def allocate_transfer_uid(self):
        return self.engine.allocate_transfer_uid()

    def _move(self, local_offsets, remote_offsets, sizes, write):
        if not len(local_offsets) == len(remote_offsets) == len(sizes):
            raise Misuse("lists of %d, %d and %d" % (len(local_offsets), len(remote_offsets), len(sizes)))
        if self.engine.backend is not self.backend:
            raise Misuse("the session's backend was removed")
        if self.engine.memories.get(self.local.id) != self.local:
            raise Misuse("memory %d is not registered" % self.local.id)
        blocks = []
        for here, there, size in zip(local_offsets, remote_offsets, sizes):
            if here + size > self.local.size or there + size > self.remote.size:
                raise Misuse("%d bytes at %d and %d are outside of memory of %d and %d" % (size, here, there, self.local.size, self.remote.size))
            a, b = self.local.data + here, self.remote_at + there
            blocks.append((b, a, size) if write else (a, b, size))
        if max(sizes, default=0) > self.backend.largest:
            return TransferStatus(code=StatusCode.ERR_RDMA_OP, message="ibv_post_send: EINVAL")
        if not blocks:
            return TransferStatus(code=StatusCode.SUCCESS)
        self.flying += 1
        if isinstance(self.backend, _Rdma):
            count(sum(sizes), write)
        return TransferStatus(self, self.backend.copies.start(blocks))

    def batch_read(self, local_offsets, remote_offsets, sizes, transfer_uid):
        return self._move(local_offsets, remote_offsets, sizes, False)

    def batch_write(self, local_offsets, remote_offsets, sizes, transfer_uid):
        return self._move(local_offsets, remote_offsets, sizes, True)


class _Xgmi:
    error, largest = StatusCode.ERR_GPU_OP, 1 << 62

    def __init__(self):
        self.copies = Copies(torch.cuda.current_device())
        self.engines, self.opened, self.sessions = {}, {}, []

    def register(self, at, memory):
        memory.handle = handle_of(at).hex()

    def deregister(self, memory):
        pass

    def open(self, memory):
        """It opens the memory of an engine once, and keeps it open. None if it cannot."""
        key = (memory.engine_key, memory.id)
        try:
            if key not in self.opened:
                self.opened[key] = open_handle(memory.ipc_handle)
        except RuntimeError:
            return None
        return self.opened[key]


class _Rdma(_Xgmi):
    error = StatusCode.ERR_RDMA_OP

    def __init__(self, host):
        super().__init__()
        self.largest = int(os.environ.get("CX_STANDIN_WR_BYTES") or 1 << 30)
        self.server = socket.create_server((host, 0))
        self.regions = {}
        self._publish()

    def port(self):
        return self.server.getsockname()[1]

    @staticmethod
    def _regions(port):
        return os.path.join(os.environ["CX_FAKE_DIR"], "mori-%d" % port)

    def _publish(self):
        """Writes what the server of the control plane would answer."""
        path = self._regions(self.port())
        with open(path + ".part", "w") as f:
            json.dump(self.regions, f)
        os.rename(path + ".part", path)

    def register(self, at, memory):
        self.regions[str(memory.id)] = memory.size, handle_of(at).hex()
        self._publish()

    def deregister(self, memory):
        self.regions.pop(str(memory.id))
        self._publish()

    def open(self, memory):
        with open(self._regions(self.engines[memory.engine_key].port)) as f:
            size, handle = json.load(f).get(str(memory.id), (0, ""))
        if size != memory.size:
            raise RuntimeError("remote MR size mismatch: expected=%d got=%d" % (memory.size, size))
        key = (memory.engine_key, memory.id)
        if key not in self.opened:
            self.opened[key] = open_handle(bytes.fromhex(handle))
        return self.opened[key]


class IOEngine:
    def __init__(self, key, config):
        self.key, self.config, self.backend = key, config, None
        self.memories, self.made, self.transfers = {}, 0, 0

    def get_engine_desc(self):
        return EngineDesc(key=self.key, node_id="node", host=self.config.host, port=self.config.port, pid=os.getpid())

    def create_backend(self, type, config=None):
        """Without adapters it takes XGMI instead, if the environment says so."""
        if type is BackendType.RDMA and os.environ.get("CX_STANDIN_HCAS"):
            self.backend = _Rdma(self.config.host)
            self.config.port = self.backend.port()
            return
        if type is not BackendType.XGMI and os.environ.get("MORI_DISABLE_AUTO_XGMI") != "0":
            raise RuntimeError("no active RDMA device on this host")
        if self.backend is None:
            self.backend = _Xgmi()

    def remove_backend(self, type):
        if self.backend is None:
            return
        if any(s.flying for s in self.backend.sessions):
            raise Misuse("transfers are in flight")
        for at in self.backend.opened.values():
            close_handle(at)
        self.backend = None

    def register_remote_engine(self, engine_desc):
        if self.backend:
            self.backend.engines[engine_desc.key] = engine_desc

    def deregister_remote_engine(self, engine_desc):
        if self.backend:
            self.backend.engines.pop(engine_desc.key)

    def register_memory(self, ptr, size, device_id, mem_loc):
        """Only backends that there are when it is called know the memory."""
        if mem_loc is not MemoryLocationType.GPU:
            raise Misuse("memory is of the %s" % mem_loc.name)
        if size > room(ptr):
            raise Misuse("%d bytes are registered of %d" % (size, room(ptr)))
        self.made += 1
        memory = self.memories[self.made] = MemoryDesc(
            engine_key=self.key, id=self.made, device_id=device_id, device_bus_id=bus_id(device_id), data=ptr, size=size, handle=bytes(64).hex())
        if self.backend:
            self.backend.register(ptr, memory)
        return memory

    def deregister_memory(self, mem_desc):
        if self.backend and any(s.flying and s.local == mem_desc for s in self.backend.sessions):
            raise Misuse("transfers of memory %d are in flight" % mem_desc.id)
        if self.memories.pop(mem_desc.id, None) is None:
            raise Misuse("memory %d is not registered" % mem_desc.id)
        if self.backend:
            self.backend.deregister(mem_desc)

    def allocate_transfer_uid(self):
        self.transfers += 1
        return self.transfers

    def create_session(self, local_mem, remote_mem):
        """None if no backend knows the engine of the remote memory, or can open it."""
        if self.backend is None or remote_mem.engine_key not in self.backend.engines:
            return None
        if not any(remote_mem.ipc_handle) and not isinstance(self.backend, _Rdma):
            return None
        if self.memories.get(local_mem.id) != local_mem:
            raise Misuse("memory %d is not registered" % local_mem.id)
        at = self.backend.open(remote_mem)
        if at is None:
            return None
        session = IOEngineSession(self, self.backend, local_mem, remote_mem, at)
        self.backend.sessions.append(session)
        return session
