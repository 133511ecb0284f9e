"""A make-believe Buffer of DeepEP 29d31c0 (deep_ep/buffer.py, csrc/deep_ep.cpp).

Signatures, shapes, types and states are the library's, and what it asserts is asserted here.
What a rank receives and sums is computed from the memory of its peers.
"""
import os
from ctypes import c_float, c_int32, c_int64

import torch
from standin import PEERS, address, cast, copy, group_of, mixed, place, read, total, write

HIDDEN = (2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)


class Config:
    def __init__(self, num_sms=20, num_max_nvl_chunked_send_tokens=6, num_max_nvl_chunked_recv_tokens=256,
                 num_max_rdma_chunked_send_tokens=6, num_max_rdma_chunked_recv_tokens=256):
        assert 0 < num_max_nvl_chunked_send_tokens < num_max_nvl_chunked_recv_tokens
        assert 0 < num_max_rdma_chunked_send_tokens <= num_max_rdma_chunked_recv_tokens // 2
        self.num_sms, self.recv, self.rdma = num_sms, num_max_nvl_chunked_recv_tokens, num_max_rdma_chunked_recv_tokens
        self.rdma_send = num_max_rdma_chunked_send_tokens

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        assert num_ranks < 8 or num_ranks % 8 == 0
        n = self.num_sms // 2 * min(num_ranks, 8) * self.recv * (hidden_bytes + 128 * (8 + 4 + 4) + 32)
        return (n + 127) // 128 * 128

    def get_rdma_buffer_size_hint(self, hidden_bytes, num_ranks):
        if num_ranks <= PEERS:
            return 0
        n = self.num_sms // 2 * (num_ranks // PEERS) * self.rdma * (hidden_bytes + 128 * (8 + 4 + 4) + 32) * 2
        return (n + 127) // 128 * 128


class EventOverlap:
    event = None


def tensor_is(t, dims, dtype):
    assert isinstance(t, torch.Tensor) and t.dim() == dims and t.is_contiguous() and t.dtype is dtype, (t.shape, t.dtype, t.strides)


class Buffer:
    num_sms = 20
    unheard = ()  # ranks whose rows are left out of low latency

    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
                 allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, use_fabric=False, explicitly_destroy=False,
                 enable_shrink=False, comm=None):
        if group is not None or comm is None:
            raise ValueError("Either 'group' or 'comm' must be provided.")
        assert num_nvl_bytes % 128 == 0 and num_rdma_bytes % 128 == 0
        self.group = group_of(comm)
        self.rank, self.group_size = comm.Get_rank(), comm.Get_size()
        assert self.group_size < 8 or self.group_size % 8 == 0
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        self.num_qps_per_rank = num_qps_per_rank
        self.nvshmem_qp_depth = int(os.environ.get("NVSHMEM_QP_DEPTH", "1024"))
        self.clean = self.pending = None
        if low_latency_mode and os.environ.get("NVSHMEM_REMOTE_TRANSPORT") != "none":
            raise RuntimeError("NVSHMEM: no transport")
        assert all(d == (num_nvl_bytes, num_rdma_bytes) for d in comm.allgather((num_nvl_bytes, num_rdma_bytes)))
        self.runtime = True

    def destroy(self):
        assert self.explicitly_destroy and self.runtime, "`explicitly_destroy` flag must be set"
        self.group.barrier()
        self.runtime = None

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts):
        n = 4 * num_experts * num_max_dispatch_tokens_per_rank * (hidden * 2 + 16) + 4 * num_experts
        return (n + 127) // 128 * 128

    @staticmethod
    def get_dispatch_config(num_ranks):
        return {2: Config(Buffer.num_sms, 24, 256, 6, 128), 4: Config(Buffer.num_sms, 6, 256, 6, 128), 8: Config(Buffer.num_sms, 6, 256, 6, 128)}[num_ranks]

    @staticmethod
    def get_combine_config(num_ranks):
        return {2: Config(Buffer.num_sms, 10, 256, 6, 128), 4: Config(Buffer.num_sms, 9, 256, 6, 128), 8: Config(Buffer.num_sms, 4, 256, 6, 128)}[num_ranks]

    def get_dispatch_layout(self, topk_idx, num_experts, previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        assert self.runtime and not async_finish and previous_event is None
        tensor_is(topk_idx, 2, torch.int64)
        torch.cuda.current_stream().synchronize()
        world, (tokens, topk) = self.group_size, topk_idx.shape
        ids = read(c_int64, topk_idx)
        experts, here = [0] * num_experts, [0] * (tokens * world)
        for i, e in enumerate(ids):
            if e >= 0:
                experts[e] += 1
                here[i // topk * world + e // (num_experts // world)] = 1
        per_rank = torch.empty((world,), dtype=torch.int, device="cuda")
        per_expert = torch.empty((num_experts,), dtype=torch.int, device="cuda")
        is_in_rank = torch.empty((tokens, world), dtype=torch.bool, device="cuda")
        write(c_int32, per_rank, [sum(here[r::world]) for r in range(world)])
        write(c_int32, per_expert, experts)
        from ctypes import c_uint8

        write(c_uint8, is_in_rank, here)
        per_node = None
        if world > PEERS:
            per_node = torch.empty((world // PEERS,), dtype=torch.int, device="cuda")
            write(c_int32, per_node, [sum(any(here[t * world + n * PEERS :][:PEERS]) for t in range(tokens)) for n in range(world // PEERS)])
        return per_rank, per_node, per_expert, is_in_rank, EventOverlap()

    def _rows(self, x, is_token_in_rank, ids, weights, experts):
        """Receives the rows of all ranks: their sources, and the rest as it is in x."""
        from ctypes import c_uint8

        self.group.begin()
        x, x_scales = x if isinstance(x, tuple) else (x, None)
        tokens, hidden = x.shape
        world = self.group_size
        tensor_is(x, 2, torch.bfloat16 if x_scales is None else torch.float8_e4m3fn)
        assert hidden * x.element_size() % 16 == 0
        tensor_is(is_token_in_rank, 2, torch.bool)
        assert is_token_in_rank.shape == (tokens, world)
        if x_scales is not None:
            assert x_scales.dtype is torch.float32 and x_scales.shape == (tokens, hidden // 128)
        here = read(c_uint8, is_token_in_rank)
        peers = self.group.exchange((tokens, hidden, here, ids, weights, place(x), place(x_scales), x_scales and x_scales.strides))
        me, sources = self.rank, []
        for r, (n, h, in_rank, *_) in enumerate(peers):
            assert h == hidden
            sources += [(r, t) for t in range(n) if in_rank[t * world + me]]
        recv = torch.empty((len(sources), hidden), dtype=x.dtype, device="cuda")
        scales = None if x_scales is None else torch.empty((len(sources), hidden // 128), dtype=torch.float32, device="cuda")
        size = hidden * x.element_size()
        for i, (r, t) in enumerate(sources):
            copy(address(recv, i), torch.mapped(peers[r][5]) + t * size, size)
            if scales is not None:
                row, column = peers[r][7]
                for c in range(hidden // 128):
                    copy(address(scales, i) + 4 * c, torch.mapped(peers[r][6]) + 4 * (t * row + c * column), 4)
        return recv, scales, sources, peers, here

    def dispatch(self, x, handle=None, num_tokens_per_rank=None, num_tokens_per_rdma_rank=None, is_token_in_rank=None,
                 num_tokens_per_expert=None, topk_idx=None, topk_weights=None, expert_alignment=1, num_worst_tokens=0, config=None,
                 previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        assert self.runtime and not self.low_latency_mode and not async_finish and previous_event is None and num_worst_tokens == 0
        config = config or self.get_dispatch_config(self.group_size)
        first = x[0] if isinstance(x, tuple) else x
        assert config.get_nvl_buffer_size_hint(first.size(1) * first.element_size(), self.group_size) <= self.num_nvl_bytes
        world, me = self.group_size, self.rank
        if handle is not None:
            assert topk_idx is None and topk_weights is None
            prefix, _, _, src, in_rank, _ = handle
            recv, scales, sources, _, _ = self._rows(x, in_rank, None, None, 0)
            assert src.size(0) == len(sources)
            self.group.barrier()
            return (recv, scales) if scales else recv, None, None, None, None, EventOverlap()
        assert num_tokens_per_rank is not None and is_token_in_rank is not None and num_tokens_per_expert is not None
        assert (num_tokens_per_rdma_rank is None) == (self.group_size <= PEERS), "tokens of each node"
        assert config.get_rdma_buffer_size_hint(first.size(1) * first.element_size(), self.group_size) <= self.num_rdma_bytes
        tensor_is(num_tokens_per_rank, 1, torch.int32)
        tensor_is(num_tokens_per_expert, 1, torch.int32)
        tensor_is(topk_idx, 2, torch.int64)
        tensor_is(topk_weights, 2, torch.float32)
        assert topk_idx.shape == topk_weights.shape and topk_idx.size(0) == first.size(0)
        experts, topk = num_tokens_per_expert.size(0), topk_idx.size(1)
        torch.cuda.current_stream().synchronize()
        given = read(c_int64, topk_idx), read(c_float, topk_weights)
        recv, scales, sources, peers, here = self._rows(x, is_token_in_rank, *given, experts)
        assert [sum(here[r::world]) for r in range(world)] == read(c_int32, num_tokens_per_rank)
        local = experts // world
        counts, ids, weights = [0] * local, [], []
        for r, t in sources:
            for e, w in zip(peers[r][3][t * topk : (t + 1) * topk], peers[r][4][t * topk : (t + 1) * topk]):
                mine = e >= 0 and e // local == me
                ids.append(e - me * local if mine else -1)
                weights.append(w if mine else 0)
                if mine:
                    counts[e - me * local] += 1
        recv_ids = torch.empty((len(sources), topk), dtype=torch.int64, device="cuda")
        recv_weights = torch.empty((len(sources), topk), dtype=torch.float32, device="cuda")
        write(c_int64, recv_ids, ids)
        write(c_float, recv_weights, weights)
        handle = self._handle(sources, peers, is_token_in_rank, config)
        self.group.barrier()
        return (recv, scales) if scales else recv, recv_ids, recv_weights, counts, handle, EventOverlap()

    def _handle(self, sources, peers, is_token_in_rank, config):
        world = self.group_size
        prefix = torch.empty((world, world), dtype=torch.int32, device="cuda")
        table = [[sum(sum(p[2][to::world]) for p in peers[: r + 1]) for to in range(world)] for r in range(world)]
        write(c_int32, prefix, [n for row in table for n in row])
        channels = [torch.empty((world, config.num_sms // 2), dtype=torch.int32, device="cuda") for _ in range(2)]
        src = torch.empty((len(sources),), dtype=torch.int32, device="cuda")
        write(c_int32, src, [t for _, t in sources])
        head = torch.empty((is_token_in_rank.size(0), world), dtype=torch.int32, device="cuda")
        return prefix, channels[0], channels[1], src, is_token_in_rank, head

    def combine(self, x, handle, topk_weights=None, bias=None, config=None, previous_event=None, async_finish=False, allocate_on_comm_stream=False):
        assert self.runtime and not self.low_latency_mode and not async_finish and bias is None and topk_weights is None
        prefix, _, channels, src, in_rank, head = handle
        self.group.begin()
        tensor_is(x, 2, torch.bfloat16)
        assert x.size(0) == src.size(0)
        me, world, hidden = self.rank, self.group_size, x.size(1)
        peers = self.group.exchange((place(x), read(c_int32, src)))
        table = read(c_int32, prefix)
        parts = [[] for _ in range(head.size(0))]
        for r, (at, sources) in enumerate(peers):
            first = table[(me - 1) * world + r] if me else 0
            for row in range(first, table[me * world + r]):
                parts[sources[row]].append(torch.mapped(at) + row * 2 * hidden)
        out = torch.empty((head.size(0), hidden), dtype=torch.bfloat16, device="cuda")
        for t, rows in enumerate(parts):
            total(address(out, t), rows, None, hidden)
        self.group.barrier()
        return out, None, EventOverlap()

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank, hidden, num_experts):
        assert self.runtime and self.low_latency_mode
        assert self.get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, self.group_size, num_experts) <= self.num_rdma_bytes
        self.clean, self.pending = (num_max_dispatch_tokens_per_rank, hidden, num_experts), None
        self.group.barrier()

    def low_latency_dispatch(self, x, topk_idx, num_max_dispatch_tokens_per_rank, num_experts, cumulative_local_expert_recv_stats=None,
                             dispatch_wait_recv_cost_stats=None, use_fp8=True, round_scale=False, use_ue8m0=False, async_finish=False,
                             return_recv_hook=False):
        assert self.runtime and self.low_latency_mode and not async_finish and not return_recv_hook and not round_scale and not use_ue8m0
        cap, world, me = num_max_dispatch_tokens_per_rank, self.group_size, self.rank
        tensor_is(x, 2, torch.bfloat16)
        tensor_is(topk_idx, 2, torch.int64)
        (tokens, hidden), topk, local = x.shape, topk_idx.size(1), num_experts // world
        assert hidden in HIDDEN and topk <= 11 and topk_idx.size(0) == tokens <= cap and num_experts % world == 0
        assert self.nvshmem_qp_depth >= (cap + 1) * 2 and world * cap % 4 == 0 and self.num_qps_per_rank == local
        assert self.clean == (cap, hidden, num_experts), "the buffer is dirty"
        assert self.pending is None, "the last dispatch was not combined"
        recv = torch.empty((local, world * cap, hidden), dtype=torch.float8_e4m3fn if use_fp8 else torch.bfloat16, device="cuda")
        scales = None
        if use_fp8:
            assert hidden % 512 == 0
            scales = torch.empty((local, hidden // 128, world * cap), dtype=torch.float32, device="cuda").transpose(1, 2)
        count = torch.empty((local,), dtype=torch.int32, device="cuda")
        src_info = torch.empty((local, world * cap), dtype=torch.int32, device="cuda")
        layout_range = torch.empty((local, world), dtype=torch.int64, device="cuda")

        def work():
            peers = self.group.exchange((tokens, read(c_int64, topk_idx), place(x)))
            counts, sources, ranges = [], [0] * (local * world * cap), [0] * (local * world)
            for e in range(local):
                n = 0
                for r in mixed(range(world)):
                    _, ids, at = peers[r]
                    begin = n
                    for i in mixed(i for i, expert in enumerate(ids) if expert == me * local + e and r not in self.unheard):
                        row, slot = torch.mapped(at) + i // topk * 2 * hidden, e * world * cap + n
                        if use_fp8:
                            corner = torch.mapped(torch.locate(scales.data_ptr())) + 4 * (e * world * cap * (hidden // 128) + n)
                            cast(address(recv) + slot * hidden, corner, world * cap, row, hidden)
                        else:
                            copy(address(recv) + slot * 2 * hidden, row, 2 * hidden)
                        sources[slot] = i // topk
                        n += 1
                    ranges[e * world + r] = begin << 32 | n - begin
                counts.append(n)
            write(c_int32, count, counts)
            write(c_int32, src_info, sources)
            write(c_int64, layout_range, ranges)
            self.group.barrier()

        self.pending = handle = (src_info, layout_range, cap, hidden, num_experts)
        self.group.run(work)
        return (recv, scales) if use_fp8 else recv, count, handle, EventOverlap(), None

    def low_latency_combine(self, x, topk_idx, topk_weights, handle, use_logfmt=False, zero_copy=False, async_finish=False,
                            return_recv_hook=False, out=None, combine_wait_recv_cost_stats=None):
        assert self.runtime and self.low_latency_mode and not (use_logfmt or zero_copy or async_finish or return_recv_hook)
        assert handle is self.pending, "a handle is good for one combine"
        src_info, layout_range, cap, hidden, experts = handle
        world, me, local = self.group_size, self.rank, experts // self.group_size
        tensor_is(x, 3, torch.bfloat16)
        assert x.shape == (local, world * cap, hidden)
        tensor_is(topk_idx, 2, torch.int64)
        tensor_is(topk_weights, 2, torch.float32)
        assert topk_idx.shape == topk_weights.shape
        tokens, topk = topk_idx.shape
        combined = out or torch.empty((tokens, hidden), dtype=torch.bfloat16, device="cuda")

        def work():
            peers = self.group.exchange((place(x), read(c_int64, layout_range), place(src_info)))
            ids, weights = read(c_int64, topk_idx), read(c_float, topk_weights)
            at = {}  # rows of this rank's tokens, by token and expert
            for r, (rows, ranges, infos) in enumerate(peers):
                for e in range(local):
                    begin, n = ranges[e * world + me] >> 32, ranges[e * world + me] & 0xFFFFFFFF
                    for slot in range(e * world * cap + begin, e * world * cap + begin + n):
                        token = c_int32.from_address(torch.mapped(infos) + 4 * slot).value
                        at[token, r * local + e] = torch.mapped(rows) + slot * 2 * hidden
            for t in range(tokens):
                slots = [i for i in range(t * topk, (t + 1) * topk) if ids[i] >= 0 and ids[i] // local not in self.unheard]
                total(address(combined, t), [at[t, ids[i]] for i in slots], [weights[i] for i in slots], hidden)
            self.group.barrier()

        self.pending = None
        self.group.run(work)
        return combined, EventOverlap(), None
