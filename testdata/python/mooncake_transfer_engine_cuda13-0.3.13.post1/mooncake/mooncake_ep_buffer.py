"""A make-believe Buffer of Mooncake EP 3b5a5941 (mooncake-wheel/mooncake/mooncake_ep_buffer.py).

What its operations do is what DeepEP's do in low latency, but for ranks that are not alive.
"""
from ctypes import c_int32

import standin_buffer
import torch
import torch.distributed as dist
from standin import Members, group_of, read, write
from standin_buffer import tensor_is

from mooncake import _ep


class Buffer(standin_buffer.Buffer):
    def __init__(self, group, num_ep_buffer_bytes=0, disable_p2p=False):
        assert dist.get_backend(group) in ("nccl", "mooncake"), "addresses are gathered in tensors on devices"
        members = Members(group)
        self.group, self.rank, self.group_size = group_of(members), members.Get_rank(), members.Get_size()
        self.num_ep_buffer_bytes, self.low_latency_mode, self.nvshmem_qp_depth = num_ep_buffer_bytes, True, 1 << 30
        self.runtime = _ep.Buffer(self.rank, self.group_size, num_ep_buffer_bytes, disable_p2p)
        self._use_fallback = not self.runtime.use_fast_path()  # to collectives of torch, which bring the same rows
        self.clean = self.pending = None

    @staticmethod
    def get_ep_buffer_size_hint(*of):
        return _ep.get_ep_buffer_size_hint(*of)

    def _alive(self, active_ranks, timeout_us):
        """Leaves out the rows of ranks that are not alive. With a timeout, every peer is too late."""
        tensor_is(active_ranks, 1, torch.int32)
        assert active_ranks.numel() == self.group_size, "the library would take all ranks to be alive"
        if timeout_us != -1:
            write(c_int32, active_ranks, [int(r == self.rank) for r in range(self.group_size)])
        self.unheard = [r for r, alive in enumerate(read(c_int32, active_ranks)) if not alive]

    def dispatch(self, x, topk_idx, active_ranks, num_max_dispatch_tokens_per_rank, num_experts, timeout_us, use_fp8=None,
                 async_finish=False, return_recv_hook=False):
        shape = num_max_dispatch_tokens_per_rank, x.size(1), num_experts
        size = self.get_ep_buffer_size_hint(num_max_dispatch_tokens_per_rank, x.size(1), self.group_size, num_experts)
        assert size <= self.num_ep_buffer_bytes, "the buffer is too small"
        self.clean = self.clean or shape
        assert self.clean == shape, "what was sent in another shape lies where this one has its signals"
        assert self.runtime.cleared, "the buffer may be cleared after a peer has written to it"
        self._alive(active_ranks, timeout_us)
        self.num_qps_per_rank = num_experts // self.group_size
        return self.low_latency_dispatch(x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts, use_fp8=use_fp8 is not False,
                                         async_finish=async_finish, return_recv_hook=return_recv_hook)

    def combine(self, x, topk_idx, topk_weights, active_ranks, timeout_us, handle, zero_copy=False, async_finish=False,
                return_recv_hook=False, out=None):
        if zero_copy:
            raise NotImplementedError("Mooncake EP zero-copy combine is not supported")
        self._alive(active_ranks, timeout_us)
        return self.low_latency_combine(x, topk_idx, topk_weights, handle, async_finish=async_finish, return_recv_hook=return_recv_hook, out=out)
