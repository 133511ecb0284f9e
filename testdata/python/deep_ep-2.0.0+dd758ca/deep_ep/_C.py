"""The communicators of the make-believe DeepEP V2."""
import standin

communicators = {}


def get_local_nccl_unique_id():
    return standin.meeting_place(8).encode().ljust(128, b"\0")


def create_nccl_comm(unique, size, rank):
    assert len(unique) == 128
    pointer = 0x1000 + len(communicators)
    communicators[pointer] = standin.Group(rank, size, unique.rstrip(b"\0").decode())
    communicators[pointer].barrier()
    return pointer


def destroy_nccl_comm(pointer):
    del communicators[pointer]
