"""The extension module of a make-believe Mooncake EP of 3b5a5941 (mooncake-ep/src/mooncake_ep_buffer.cpp)."""
import torch


def get_ep_buffer_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts):
    return 4 * num_experts * (4 + num_max_dispatch_tokens_per_rank * (2 * 16 + 2 * hidden))


class Buffer:
    """Memory that peers write into, without a network. It is cleared in the default stream."""

    def __init__(self, rank, num_ranks, num_ep_buffer_bytes, disable_p2p=False):
        self.memory, self.p2p, self.cleared = torch.empty((num_ep_buffer_bytes,), dtype=torch.uint8, device="cuda"), not disable_p2p, False
        torch.cuda._default.append(self.clear)

    def clear(self):
        self.cleared = True

    def use_fast_path(self):
        return self.p2p
