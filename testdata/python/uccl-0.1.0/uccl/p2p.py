"""A make-believe UCCL P2P of da914a20 (p2p/engine_api.cc), between two GPUs of a host.

It copies as p2p/engine.cc does: it opens the handle of each block, goes to the block's offset
from the beginning of the allocation, and closes the handle when the copy has ended. It refuses,
as Misuse, what the real one answers with a crash or wrong data: an identifier that it has
forgotten, a handle that the peer did not make, and a place outside of what it advertised.
"""
import json
import os
import struct

from standin_copy import Copies, Misuse, bus_id, close_handle, handle_of, open_handle, room

ALIGN = 1 << 20  # kIpcAlignment
INFO = struct.Struct("=64sQQI?3xi4xQ")  # IpcTransferInfo


def _inbox(bus):
    """Where an endpoint says what it is, for endpoints of other processes."""
    return os.path.join(os.environ["CX_FAKE_DIR"], "uccl-" + bus)


class Endpoint:
    def __init__(self, local_gpu_idx):
        self.device, self.bus = local_gpu_idx, bus_id(local_gpu_idx)
        self.copies = Copies(local_gpu_idx)
        self.own = {"pid": os.getpid(), "accepting": False, "advertised": []}
        self.connections, self.flying, self.made = {}, {}, 0
        self._publish()

    def _publish(self):
        part = "%s-%d" % (_inbox(self.bus), os.getpid())
        with open(part, "w") as f:
            json.dump(self.own, f)
        os.rename(part, _inbox(self.bus))

    def start_passive_accept(self):
        self.own["accepting"] = True
        self._publish()
        return True

    def get_metadata(self):
        return b"\x7f\0\0\1" + struct.pack("!H", 4000) + bytes([len(self.bus)]) + self.bus.encode()

    @staticmethod
    def parse_metadata(metadata):
        if len(metadata) < 7 or len(metadata) != 7 + metadata[6]:
            raise RuntimeError("Metadata size mismatch for IPv6: got %d" % len(metadata))
        return ".".join(map(str, metadata[:4])), struct.unpack("!H", metadata[4:6])[0], metadata[7:].decode()

    def connect_local(self, remote_gpu_bdf):
        if not os.path.exists(_inbox(remote_gpu_bdf)):
            return False, 0
        with open(_inbox(remote_gpu_bdf)) as f:
            if not json.load(f)["accepting"]:
                raise Misuse("nobody accepts at %s" % remote_gpu_bdf)
        self.made += 1
        self.connections[self.made] = remote_gpu_bdf
        return True, self.made

    def remove_remote_endpoint(self, conn_id):
        if self.flying:
            raise Misuse("%d transfers are in flight" % len(self.flying))
        return self.connections.pop(conn_id, None) is not None

    def advertise_ipc(self, conn_id, ptr, size):
        """The real one names the allocation in which the aligned address lies, and counts the
        offset from there."""
        if size > room(ptr):
            raise Misuse("%d bytes are advertised of %d" % (size, room(ptr)))
        offset = ptr % ALIGN
        info = INFO.pack(handle_of(ptr - offset), offset, size, 1, False, -1, 0)
        self.own["advertised"].append([info[:64].hex(), offset, size])
        self._publish()
        return True, info

    def _move(self, conn_id, ptr_v, size_v, info_v, write):
        if not len(ptr_v) == len(size_v) == len(info_v):
            raise RuntimeError("size_v mismatch")
        if conn_id not in self.connections:
            return False, 0
        with open(_inbox(self.connections[conn_id])) as f:
            advertised = json.load(f)["advertised"]
        opened, blocks = [], []
        for ptr, size, blob in zip(ptr_v, size_v, info_v):
            handle, offset, _, _, is_host, gpu, direct = INFO.unpack(blob)
            if is_host or gpu != -1 or direct:
                raise Misuse("this is of no endpoint of another process")
            if not any(handle.hex() == h and at <= offset and offset + size <= at + n for h, at, n in advertised):
                raise Misuse("%d bytes at %d were not advertised" % (size, offset))
            opened.append(open_handle(handle))
            to, at = ptr, opened[-1] + offset
            blocks.append((at, to, size) if write else (to, at, size))
        transfer = self.copies.start(blocks)
        if transfer[1] == "fail":
            return False, 0
        self.made += 1
        self.flying[self.made] = transfer, opened
        return True, self.made

    def writev_ipc_async(self, conn_id, ptr_v, size_v, info_v):
        return self._move(conn_id, ptr_v, size_v, info_v, True)

    def readv_ipc_async(self, conn_id, ptr_v, size_v, info_v):
        return self._move(conn_id, ptr_v, size_v, info_v, False)

    def poll_async(self, transfer_id):
        """It forgets a transfer when it says that it is done, and knows of no failure."""
        if transfer_id not in self.flying:
            raise Misuse("transfer %d was forgotten" % transfer_id)
        transfer, opened = self.flying[transfer_id]
        done, failed = self.copies.ended(transfer)
        if failed:
            raise RuntimeError("GPU error")
        if done:
            del self.flying[transfer_id]
            for at in opened:
                close_handle(at)
        return True, done
