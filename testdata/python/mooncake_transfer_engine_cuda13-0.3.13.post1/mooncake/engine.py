"""A make-believe transfer engine of Mooncake 3b5a5941 (mooncake-integration/transfer_engine), between
the GPUs of two processes, over RDMA or, where that is not possible, over TCP.

Which transport it takes is decided as in the real one (transfer_engine_impl.cpp). CX_STANDIN_HCAS
lists the adapters of the machine, and CX_STANDIN_EFA=1 makes it a build for EFA. It refuses, as
Misuse, a batch that it has forgotten, and memory that is not the device's.
"""
import json
import os
import socket
import threading

from standin_copy import Copies, Misuse, close_handle, count, handle_of, open_handle, room

NOT_REGISTERED, OVERLAPS = -1, -7


def _transport(protocol, filter):
    """What the real one installs: the protocol decides in a build for EFA alone."""
    hcas = [a for a in os.environ.get("CX_STANDIN_HCAS", "").split(",") if a and (not filter or a in filter.split(","))]
    if os.environ.get("CX_STANDIN_EFA"):
        return "efa" if protocol == "efa" and hcas else "tcp" if protocol != "efa" else None
    if "MC_FORCE_TCP" in os.environ:
        return "tcp"
    if "MC_FORCE_MNNVL" in os.environ:
        return None  # over NVLink, which is not here
    if "MC_FORCE_HCA" in os.environ:
        return "rdma" if hcas and not hcas[0].startswith("rdmap") else None  # EFA has no queue pairs for it
    return "rdma" if hcas else "tcp"


def _carry(size):
    """Moves bytes over a connection of TCP in this process, which is closed, as those of the real one are."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near, server.accept()[0] as far:
        sender = threading.Thread(target=near.sendall, args=(bytes(size),))
        sender.start()
        while size:
            size -= len(far.recv(min(size, 1 << 20)))
        sender.join()


class TransferEngine:
    def __init__(self):
        self.buffers, self.batches, self.made, self.transport = {}, {}, 0, None

    def initialize(self, local_hostname, metadata_server, protocol, device_name):
        if metadata_server != "P2PHANDSHAKE":
            raise Misuse("no metadata server is at %s" % metadata_server)
        self.transport = _transport(protocol, device_name)
        if self.transport is None:
            return -1
        if self.transport != "tcp" and (os.environ.get("MC_USE_NVLINK_IPC") != "0" or os.environ.get("MC_USE_HIP_IPC") != "0"):
            self.transport = "ipc"  # claims memory of another node, which it does not find
        self.host = local_hostname.rpartition(":")[0]
        self.listens = socket.create_server((self.host, 0))
        self.copies = Copies(0)
        self._publish()
        return 0

    def get_rpc_port(self):
        return self.listens.getsockname()[1]

    def _publish(self):
        """Writes what a handshake would tell a peer."""
        path = _segment("%s:%d" % (self.host, self.get_rpc_port()))
        with open(path + ".part", "w") as f:
            json.dump([[at, size, handle.hex()] for at, (size, handle) in self.buffers.items()], f)
        os.rename(path + ".part", path)

    def register_memory(self, at, size, location="*"):
        if size > room(at):
            raise Misuse("%d bytes are registered of %d" % (size, room(at)))
        if any(at < b + n and b < at + size for b, (n, _) in self.buffers.items()):
            return OVERLAPS
        self.buffers[at] = size, handle_of(at)
        self._publish()
        return 0

    def unregister_memory(self, at):
        if self.buffers.pop(at, None) is None:
            return NOT_REGISTERED
        self._publish()
        return 0

    def _start(self, target, here, there, sizes, write):
        """0 is the answer to lists of different lengths, an unknown target and local memory that is not
        registered. What the target has not registered fails in the batch."""
        if not (len(here) == len(there) == len(sizes)) or not os.path.exists(_segment(target)):
            return 0
        if self.transport != "tcp" and not all(any(b <= at and at + n <= b + size for b, (size, _) in self.buffers.items()) for at, n in zip(here, sizes)):
            return 0
        with open(_segment(target)) as f:
            remote = json.load(f)
        blocks, opened, failed = [], {}, self.transport == "ipc"
        for to, at, n in zip(here, there, sizes):
            of = next((r for r in remote if r[0] <= at and at + n <= r[0] + r[1]), None)
            if of is None or failed:
                failed = True
                break
            if of[0] not in opened:
                opened[of[0]] = open_handle(bytes.fromhex(of[2]))
            at = opened[of[0]] + at - of[0]
            blocks.append((at, to, n) if write else (to, at, n))
        if not failed:
            if self.transport == "tcp":
                _carry(sum(sizes))
            else:
                count(sum(sizes), write)
        self.made += 1
        self.batches[self.made] = None if failed else self.copies.start(blocks), opened.values()
        return self.made

    def batch_transfer_async_write(self, target, here, there, sizes):
        return self._start(target, here, there, sizes, True)

    def batch_transfer_async_read(self, target, here, there, sizes):
        return self._start(target, here, there, sizes, False)

    def get_batch_transfer_status(self, batches):
        """Waits for the batches, and forgets them."""
        for batch in batches:
            if batch not in self.batches:
                raise Misuse("batch %d was forgotten" % batch)
            copies, opened = self.batches.pop(batch)
            done, failed = copies is None, copies is None
            while not done:
                done, failed = self.copies.ended(copies)
            for at in opened:
                close_handle(at)
            if failed:
                return -1
        return 0


def _segment(name):
    return os.path.join(os.environ["CX_FAKE_DIR"], "mooncake-" + name)
