"""A make-believe DeepEP V2 of dd758ca (deep_ep/buffers/elastic.py, csrc/elastic/buffer.hpp).

Signatures, shapes, types and states are the library's, and what it asserts is asserted here.
Of Buffer, it has what is measured: low latency.
"""
import os
from ctypes import c_float, c_int32, c_int64

import standin_buffer
import torch
from standin import PEERS, address, copy, place, read, total, write
from standin_buffer import Config, EventOverlap, tensor_is

from . import _C

topk_idx_t = torch.int64
assert os.environ.get("EP_JIT_CACHE_DIR"), "ranks race for compiled kernels"


class Buffer(standin_buffer.Buffer):
    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
                 allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, explicitly_destroy=False, enable_shrink=False, comm=None):
        super().__init__(group, num_nvl_bytes, num_rdma_bytes, low_latency_mode, num_qps_per_rank, allow_nvlink_for_low_latency_mode,
                         allow_mnnvl, False, explicitly_destroy, enable_shrink, comm)


class EPHandle:
    def __init__(self, **of):
        self.__dict__.update(of)


class ElasticBuffer:
    def __init__(self, group, num_bytes=None, num_cpu_bytes=0, num_max_tokens_per_rank=0, hidden=0, num_topk=0, use_fp8_dispatch=False,
                 deterministic=False, allow_hybrid_mode=True, allow_multiple_reduction=True, prefer_overlap_with_compute=True, sl_idx=3,
                 num_allocated_qps=0, num_cpu_timeout_secs=300, num_gpu_timeout_secs=100, explicitly_destroy=False):
        hash(group)
        assert allow_hybrid_mode == (group.size() > PEERS), "hybrid mode is for ranks of several scale-up domains"
        if allow_hybrid_mode:
            assert "EP_DISABLE_GIN" not in os.environ, "hybrid mode needs GIN"
            assert os.environ.get("NCCL_IB_MERGE_NICS") == "0" and os.environ.get("NCCL_NET") == "IB", "fused NICs have no GIN"
            assert 0 < num_allocated_qps <= max(9, 1 + 512 // group.size()), "ibv_create_qp: out of memory"
        else:
            assert os.environ.get("EP_REUSE_NCCL_COMM", "1") == "1", "expecting a ProcessGroup"
            assert os.environ.get("EP_DISABLE_GIN") == "1" and num_allocated_qps == 0, "no network"
        self.hybrid, self.prefer_overlap_with_compute = allow_hybrid_mode, prefer_overlap_with_compute
        self.group = _C.communicators[group._get_backend(torch.device("cuda"))._comm_ptr()]
        assert (self.group.rank, self.group.world) == (group.rank(), group.size())
        self.num_bytes = num_bytes or self.get_buffer_size_hint(
            group, num_max_tokens_per_rank, hidden, num_topk, use_fp8_dispatch, allow_hybrid_mode, allow_multiple_reduction)
        self.num_max_tokens_per_rank = num_max_tokens_per_rank
        self.num_allocated_qps = num_allocated_qps or 17
        self.explicitly_destroy, self.runtime = explicitly_destroy, True
        torch.cuda.synchronize()
        group.barrier()

    def destroy(self):
        assert self.explicitly_destroy and self.runtime
        self.group.barrier()
        self.runtime = None

    @staticmethod
    def get_buffer_size_hint(group, num_max_tokens_per_rank, hidden, num_topk=0, use_fp8_dispatch=False, allow_hybrid_mode=True,
                             allow_multiple_reduction=True):
        assert num_max_tokens_per_rank > 0 and hidden > 0
        n = group.size() * num_max_tokens_per_rank * (2 * hidden + 16 * num_topk)
        return (n + (2 << 20) - 1) >> 21 << 21

    def get_theoretical_num_sms(self, num_experts, num_topk):
        return 64

    def get_theoretical_num_qps(self, num_sms):
        return min(num_sms * 16 + 1 if self.hybrid else min(num_sms, 9), self.num_allocated_qps)

    def dispatch(self, x, topk_idx=None, topk_weights=None, cumulative_local_expert_recv_stats=None, num_experts=None,
                 num_max_tokens_per_rank=None, expert_alignment=None, num_sms=0, num_qps=0, previous_event=None,
                 previous_event_before_epilogue=None, async_with_compute_stream=False, allocate_on_comm_stream=False, handle=None,
                 do_handle_copy=True, do_cpu_sync=None, do_expand=False, do_zero_padding=False, use_tma_aligned_col_major_sf=False):
        assert self.runtime and num_qps <= self.num_allocated_qps and not async_with_compute_stream and not do_expand
        x, sf = x if isinstance(x, tuple) else (x, None)
        if handle is not None:
            assert topk_idx is None and not do_cpu_sync
            topk_idx, num_experts, cap = handle.topk_idx, handle.num_experts, handle.num_max_tokens_per_rank
        else:
            cap = num_max_tokens_per_rank or self.num_max_tokens_per_rank
            tensor_is(topk_weights, 2, torch.float32)
        tokens, hidden = x.shape
        tensor_is(x, 2, torch.bfloat16 if sf is None else torch.float8_e4m3fn)
        tensor_is(topk_idx, 2, torch.int64)
        if sf is not None:
            tensor_is(sf, 2, torch.float32)
            assert sf.shape == (tokens, hidden // 128)
        sync = handle.sync if handle is not None else do_cpu_sync is not False
        assert tokens <= cap and topk_idx.size(0) == tokens and topk_idx.size(1) <= 32
        assert self.get_buffer_size_hint(self._self(), cap, hidden, topk_idx.size(1)) <= self.num_bytes
        topk, local = topk_idx.size(1), num_experts // self.group.world
        if not sync:
            return self._unsynced(x, sf, topk_idx, topk_weights, handle, num_experts, cap, num_sms)
        self.group.begin()
        peers, sources = self._sources(tokens, topk_idx, topk_weights, x, sf, num_experts)
        if handle is None:
            handle = self._handle(topk_idx, num_experts, cap, num_sms, len(sources), local)
            handle.num_recv_tokens_per_expert_list = [0] * local
        assert handle.num_recv_tokens == len(sources)
        out = self._outputs(len(sources), hidden, topk, x, sf, topk_weights)
        self._fill(out, handle, peers, sources)
        self.group.barrier()
        return self._returned(out, handle)

    def _unsynced(self, x, sf, topk_idx, topk_weights, handle, num_experts, cap, num_sms):
        """Does not wait for the number of rows, and returns memory for all that could arrive."""
        (tokens, hidden), topk, rows = x.shape, topk_idx.size(1), self.group.world * cap
        if handle is None:
            handle = self._handle(topk_idx, num_experts, cap, num_sms, rows, num_experts // self.group.world)
            handle.sync = False
        out = self._outputs(rows, hidden, topk, x, sf, topk_weights)

        def work():
            peers, sources = self._sources(tokens, topk_idx, topk_weights, x, sf, num_experts)
            self._fill(out, handle, peers, sources)
            self.group.barrier()

        self.group.run(work)
        return self._returned(out, handle)

    def _sources(self, tokens, topk_idx, topk_weights, x, sf, num_experts):
        """What the peers send, and by rank and token what of it comes here."""
        topk, me, local = topk_idx.size(1), self.group.rank, num_experts // self.group.world
        weights = read(c_float, topk_weights) if topk_weights is not None else None
        peers = self.group.exchange((tokens, read(c_int64, topk_idx), weights, place(x), place(sf)))
        sources = []
        for r, (n, of, *_) in enumerate(peers):
            sources += [(r, t) for t in range(n) if any(e // local == me for e in of[t * topk : (t + 1) * topk])]
        return peers, sources

    def _handle(self, topk_idx, num_experts, cap, num_sms, rows, local):
        def ints(*shape):
            return torch.empty(shape, dtype=torch.int32, device="cuda")

        clone = torch.empty(topk_idx.shape, dtype=torch.int64, device="cuda")
        return EPHandle(topk_idx=clone, given=topk_idx, num_experts=num_experts, num_max_tokens_per_rank=cap, num_sms=num_sms, num_recv_tokens=rows,
                        recv_src_metadata=ints(rows, topk_idx.size(1) + 2), psum_num_recv_tokens_per_scaleup_rank=ints(self.group.world),
                        psum_num_recv_tokens_per_expert=ints(local), num_recv_tokens_per_expert_list=None, sync=True)

    @staticmethod
    def _outputs(rows, hidden, topk, x, sf, topk_weights):
        recv = torch.empty((rows, hidden), dtype=x.dtype, device="cuda")
        recv_sf = torch.empty((rows, hidden // 128), dtype=torch.float32, device="cuda") if sf is not None else None
        out_ids = torch.empty((rows, topk), dtype=torch.int64, device="cuda")
        out_weights = torch.empty((rows, topk), dtype=torch.float32, device="cuda") if topk_weights is not None else None
        return recv, recv_sf, out_ids, out_weights

    def _fill(self, out, handle, peers, sources):
        """Writes what arrives. A whole dispatch also writes the handle."""
        recv, recv_sf, out_ids, out_weights = out
        topk, me, local, cap = out_ids.size(1), self.group.rank, handle.num_experts // self.group.world, handle.num_max_tokens_per_rank
        hidden, size, per_expert, recv_ids, recv_weights = recv.size(1), recv.size(1) * recv.element_size(), [0] * local, [], []
        for i, (r, t) in enumerate(sources):
            copy(address(recv, i), torch.mapped(peers[r][3]) + t * size, size)
            if recv_sf is not None:
                copy(address(recv_sf, i), torch.mapped(peers[r][4]) + t * hidden // 32, hidden // 32)
            for k in range(t * topk, (t + 1) * topk):
                e = peers[r][1][k] - me * local
                mine = 0 <= e < local
                recv_ids.append(e if mine else -1)
                recv_weights.append(peers[r][2][k] if mine and peers[r][2] else 0)
                if mine:
                    per_expert[e] += 1
        write(c_int64, out_ids[: len(sources)], recv_ids)
        if out_weights is None:  # the handle is an earlier dispatch's
            return
        write(c_float, out_weights[: len(sources)], recv_weights)
        write(c_int32, handle.recv_src_metadata[: len(sources)], [n for r, t in sources for n in [r * cap + t] * (topk + 2)])
        write(c_int32, handle.psum_num_recv_tokens_per_scaleup_rank, [sum(r <= peer for r, _ in sources) for peer in range(self.group.world)])
        write(c_int32, handle.psum_num_recv_tokens_per_expert, [sum(per_expert[: e + 1]) for e in range(local)])
        write(c_int64, handle.topk_idx, read(c_int64, handle.given))
        if handle.num_recv_tokens_per_expert_list is not None:
            handle.num_recv_tokens_per_expert_list[:] = per_expert

    @staticmethod
    def _returned(out, handle):
        recv, recv_sf, out_ids, out_weights = out
        return (recv, recv_sf) if recv_sf is not None else recv, out_ids, out_weights, handle, EventOverlap()

    def _self(self):
        world = self.group.world
        return type("Group", (), {"size": lambda _: world})()

    def combine(self, x, handle, topk_weights=None, bias=None, num_sms=0, num_qps=0, previous_event=None, previous_event_before_epilogue=None,
                async_with_compute_stream=False, allocate_on_comm_stream=False):
        assert self.runtime and num_qps <= self.num_allocated_qps and not async_with_compute_stream and topk_weights is None and bias is None
        tensor_is(x, 2, torch.bfloat16)
        assert x.size(0) == handle.num_recv_tokens
        tokens, topk = handle.topk_idx.shape
        hidden, cap = x.size(1), handle.num_max_tokens_per_rank
        out = torch.empty((tokens, hidden), dtype=torch.bfloat16, device="cuda")

        def work():
            count = read(c_int32, handle.psum_num_recv_tokens_per_scaleup_rank)[-1]
            peers = self.group.exchange((place(x), read(c_int32, handle.recv_src_metadata)[:: topk + 2][:count]))
            parts = [[] for _ in range(tokens)]
            for at, sources in peers:
                for row, source in enumerate(sources):
                    if source // cap == self.group.rank:
                        parts[source % cap].append(torch.mapped(at) + row * 2 * hidden)
            for t, rows in enumerate(parts):
                total(address(out, t), rows, None, hidden)
            self.group.barrier()

        self.group.run(work)
        return out, None, EventOverlap()
