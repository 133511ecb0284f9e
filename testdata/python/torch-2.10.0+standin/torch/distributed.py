"""What libraries take of torch.distributed: one group of all ranks, which meet in a file."""
import itertools
import os

ProcessGroup = None  # below


class TCPStore:
    """A store. Its port is the number of a file: nobody listens."""

    def __init__(self, host_name, port, world_size=None, is_master=False, wait_for_workers=True):
        from standin import SLOT

        assert host_name == "127.0.0.1" and world_size
        if is_master:
            assert port == 0 and not wait_for_workers, "the workers learn the port from the master"
            for port in itertools.count(20000):
                try:
                    fd = os.open(self._path(port), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
                    break
                except FileExistsError:
                    pass
            os.ftruncate(fd, SLOT * (1 + world_size))
            os.close(fd)
        self.port = port

    @staticmethod
    def _path(port):
        return os.path.join(os.environ["CX_FAKE_DIR"], "store-%d" % port)


class ProcessGroup:
    def __init__(self, backend, rank, world_size, path):
        from standin import Group

        self.backend, self.ranks = backend, Group(rank, world_size, path)


class group:
    WORLD = None


def init_process_group(backend, store=None, rank=-1, world_size=-1):
    if backend not in ("gloo", "nccl") or group.WORLD is not None:
        raise ValueError("one group, of gloo or NCCL")
    group.WORLD = ProcessGroup(backend, rank, world_size, store._path(store.port))


def destroy_process_group():
    assert group.WORLD is not None, "no group was made"
    group.WORLD = None


def get_backend(group):
    return group.backend


def get_rank(group):
    return group.ranks.rank


def get_world_size(group):
    return group.ranks.world


def all_gather_object(object_list, obj, group):
    assert len(object_list) == group.ranks.world
    object_list[:] = group.ranks.exchange(obj)
    group.ranks.barrier()
