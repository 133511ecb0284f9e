"""The symmetric memory of the make-believe MoRI."""
import atexit
import os

import standin

MORI_SHMEM_INIT_WITH_UNIQUEID = 1
group = None


def shmem_get_unique_id():
    return standin.meeting_place(8).encode().ljust(128, b"\0")


def shmem_init_attr(flags, rank, nranks, unique_id):
    global group
    assert flags == MORI_SHMEM_INIT_WITH_UNIQUEID and group is None and len(unique_id) == 128
    assert os.environ.get("MORI_SHMEM_HEAP_SIZE"), "the heap is too small"
    group = standin.Group(rank, nranks, unique_id.rstrip(b"\0").decode())
    group.barrier()
    atexit.register(os.abort)  # as its destructors do once the library is gone
    return 0
