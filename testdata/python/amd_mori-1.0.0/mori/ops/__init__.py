"""A make-believe MoRI v1 of 624002c8 (python/mori/ops/dispatch_combine.py). With CX_STANDIN_MORI=old
its combine is that of before ROCm/mori#546, and it lacks the calls that receive.
"""
import enum
import os
from ctypes import c_float, c_int32, c_int64

import torch
from standin import SLOT, address, copy, mixed, place, read, total, write

from mori import shmem


class EpDispatchCombineKernelType(enum.Enum):
    IntraNode = 0
    InterNodeV1 = 2
    AsyncLL = 4
    IntraNodeLL = 5


class EpDispatchCombineConfig:
    def __init__(self, data_type, rank, world_size, hidden_dim, scale_dim, scale_type_size, max_token_type_size, max_num_inp_token_per_rank,
                 num_experts_per_rank, num_experts_per_token, warp_num_per_block=8, block_num=80, max_total_recv_tokens=0,
                 use_external_inp_buf=True, kernel_type=EpDispatchCombineKernelType.IntraNode, gpu_per_node=8, rdma_block_num=0, num_qp_per_pe=1,
                 quant_type="none"):
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})
        assert gpu_per_node & (gpu_per_node - 1) == 0 and quant_type == "none"
        across = kernel_type is EpDispatchCombineKernelType.InterNodeV1
        assert (world_size > gpu_per_node) == across, "kernels for one node on several, or the other way"
        assert not across or (block_num, rdma_block_num, num_qp_per_pe) == (96, 64, 1)
        assert not across or os.environ.get("MORI_SHMEM_MODE", "static") == "static", "VMM_HEAP corrupts what is combined"


operators = 0  # made by this process

LAUNCHES = {
    EpDispatchCombineKernelType.IntraNode: (80, 0, 16), EpDispatchCombineKernelType.IntraNodeLL: (80, 0, 16),
    EpDispatchCombineKernelType.InterNodeV1: (96, 64, 8), EpDispatchCombineKernelType.AsyncLL: (64, 32, 8),
}


class EpDispatchCombineOp:
    def __init__(self, config):
        global operators
        operators += 1
        self.config, self.group, self.number = config, shmem.group, operators
        assert (self.group.rank, self.group.world) == (config.rank, config.world_size)
        self.launch_config_mode = os.environ.get("MORI_EP_LAUNCH_CONFIG_MODE", "AUTO")
        self.rows = config.world_size * config.max_num_inp_token_per_rank
        topk = config.num_experts_per_token
        self.memory = torch.empty((self.rows, 2 * config.hidden_dim), dtype=torch.uint8, device="cuda")
        self.weights = torch.empty((self.rows, topk), dtype=torch.float32, device="cuda")
        self.indices = torch.empty((self.rows, topk), dtype=torch.int32, device="cuda")
        self.total = torch.empty((1,), dtype=torch.int32, device="cuda")
        self.out = torch.empty((config.max_num_inp_token_per_rank, config.hidden_dim), dtype=torch.bfloat16, device="cuda")
        self.dispatched = None  # ids and sources between a dispatch and its combine
        self.left = None  # what an operation of AsyncLL leaves to its other half
        self._own()[0] = self.number

    def _own(self, rank=None):
        rank = self.config.rank if rank is None else rank
        return (c_int64 * 1).from_buffer(self.group.memory, SLOT * (2 + rank) - 8)

    def __del__(self):
        if self.group is None:
            os.abort()

    def _begin(self, blocks, rdma, warps):
        assert (blocks, rdma, warps) == LAUNCHES[self.config.kernel_type]
        assert self.left is None, "what was sent has yet to be received"

    def _same(self):
        for r in range(self.config.world_size):
            assert self._own(r)[0] == self.number, "a peer has yet to make its operator, which clears what is sent to it"

    def dispatch(self, input, weights, scales, indices, block_num=-1, rdma_block_num=-1, warp_per_block=-1, call_local_expert_count=False, *,
                 routing=None, return_routing=False):
        c = self.config
        assert self.dispatched is None, "dispatch and combine alternate"
        assert scales is None and routing is None and not return_routing
        assert input.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz) and input.is_contiguous()
        (tokens, hidden), topk = input.shape, c.num_experts_per_token
        assert hidden == c.hidden_dim and tokens <= c.max_num_inp_token_per_rank and input.element_size() <= c.max_token_type_size
        assert indices.dtype is torch.int32 and indices.shape == (tokens, topk) and indices.is_contiguous()
        assert weights.dtype is torch.float32 and weights.shape == (tokens, topk)
        self._begin(block_num, rdma_block_num, warp_per_block)
        me, local = c.rank, c.num_experts_per_rank
        out = self.memory.view(self.rows * 2 * hidden)[: self.rows * hidden * input.element_size()].view(input.dtype).view(self.rows, hidden)
        size, sources, peers = hidden * input.element_size(), [], []

        def send():
            self._same()
            peers[:] = self.group.exchange((tokens, read(c_int32, indices), read(c_float, weights), place(input)))
            sources[:] = mixed((r, t) for r, (n, ids, *_) in enumerate(peers) for t in range(n)
                               if any(e // local == me for e in ids[t * topk : (t + 1) * topk]))

        def receive():
            all_ids, all_weights = [], []
            for i, (r, t) in enumerate(sources):
                copy(address(out, i), torch.mapped(peers[r][3]) + t * size, size)
                all_ids += peers[r][1][t * topk : (t + 1) * topk]
                all_weights += peers[r][2][t * topk : (t + 1) * topk]
            write(c_int32, self.indices[: len(sources)], all_ids)
            write(c_float, self.weights[: len(sources)], all_weights)
            write(c_int32, self.total, [len(sources)])
            self.group.barrier()

        self.dispatched = tokens, sources
        self._send("dispatch", send, receive)
        return out, self.weights, None, self.indices, self.total

    def _send(self, of, send, receive):
        """Does an operation; one of AsyncLL leaves its other half to the call that receives."""
        if self.config.kernel_type is EpDispatchCombineKernelType.AsyncLL:
            self.left = of, receive
            self.group.run(send)
        else:
            self.group.run(lambda: (send(), receive()))

    def _received(self, of):
        assert self.left is not None and self.left[0] == of, "nothing was sent"
        receive, self.left = self.left[1], None
        torch.cuda.current_stream().run(receive)

    def dispatch_recv(self, block_num=-1, warp_per_block=-1, call_local_expert_count=False):
        self._received("dispatch")

    def combine_recv(self, block_num=-1, warp_per_block=-1):
        self._received("combine")

    def combine(self, input, weights, indices, block_num=-1, rdma_block_num=-1, warp_per_block=-1, use_external_inp_buf=-1, call_reset=False, *,
                routing=None):
        c = self.config
        assert self.dispatched is not None, "dispatch and combine alternate"
        tokens, sources = self.dispatched
        assert weights is None and routing is None and not call_reset
        assert input.dtype is torch.bfloat16 and input.size(0) >= self.rows and input.size(1) == c.hidden_dim
        assert indices.dtype is torch.int32
        if os.environ.get("CX_STANDIN_MORI") == "old":
            assert indices.data_ptr() == self.indices.data_ptr(), "combine takes the ids of the rows that arrived"
        else:
            self._check_combine_indices(indices, tokens)
        self._begin(block_num, rdma_block_num, warp_per_block)
        peers = []

        def send():
            self._same()
            peers[:] = self.group.exchange((place(input), sources))

        def receive():
            parts = [[] for _ in range(tokens)]
            for at, of in peers:
                for row, (r, t) in enumerate(of):
                    if r == c.rank:
                        parts[t].append(torch.mapped(at) + row * 2 * c.hidden_dim)
            for t, rows in enumerate(parts):
                total(address(self.out, t), rows, None, c.hidden_dim)
            self.group.barrier()

        self.dispatched = None
        self._send("combine", send, receive)
        return self.out, None

    @staticmethod
    def _check_combine_indices(indices, cur_n):
        if indices.size(0) != cur_n:
            raise ValueError("combine() indices has %d rows but this rank dispatched %d tokens" % (indices.size(0), cur_n))


if os.environ.get("CX_STANDIN_MORI") == "old":
    del EpDispatchCombineOp._check_combine_indices, EpDispatchCombineOp.dispatch_recv, EpDispatchCombineOp.combine_recv
