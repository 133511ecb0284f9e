"""A make-believe MoeAlltoAll of FlashInfer 0.6.18. What it asserts is the library's; what a
rank receives and sums is computed from the memory of its peers.
"""
from ctypes import c_float, c_int32

import torch
from standin import address, copy, group_of, place, read, total, write


def pad(n):
    return (n + 127) // 128 * 128


def moe_a2a_get_workspace_size_per_rank(ep_size, max_num_tokens, total_dispatch_payload_size_per_token, combine_payload_size_per_token,
                                        eplb_stats_num_experts=0):
    rows = ep_size * max_num_tokens
    return 4096 + pad(rows * total_dispatch_payload_size_per_token) + pad(rows * combine_payload_size_per_token)


class MoeAlltoAll:
    def __init__(self, mapping, max_num_tokens, top_k, num_experts, workspace_size_per_rank=None, hidden_size=None, mnnvl_config=None,
                 eplb_stats_num_experts=0, enable_rank_mask=False):
        assert mapping.moe_ep_size == mnnvl_config.comm_backend.Get_size() and num_experts % mapping.moe_ep_size == 0
        comm = mnnvl_config.comm_backend.Split(mapping.rank // mapping.moe_ep_size, mapping.moe_ep_rank)
        self.group, self.max_num_tokens, self.top_k, self.num_experts = group_of(comm), max_num_tokens, top_k, num_experts
        self.ep_rank, self.ep_size, self.size = mapping.moe_ep_rank, mapping.moe_ep_size, workspace_size_per_rank
        self.workspace = torch.empty((workspace_size_per_rank,), dtype=torch.uint8, device="cuda")
        self.phase = "idle"
        comm.barrier()

    def _wrap(self, offset, shape, dtype):
        n = dtype.itemsize
        for s in shape:
            n *= s
        assert offset + n <= self.size, "the workspace is too small"
        return self.workspace[offset : offset + n].view(dtype).view(*shape), offset + pad(n)

    def dispatch(self, token_selected_experts, input_payloads, runtime_max_tokens_per_rank, invalid_token_expert_id=None,
                 expert_id_payload_index=None, eplb_local_stats=None, active_rank_mask=None):
        assert self.phase == "idle", "dispatch called twice without combine"
        assert runtime_max_tokens_per_rank <= self.max_num_tokens, "runtime_max_tokens_per_rank exceeds max_num_tokens"
        assert 0 < len(input_payloads) <= 4 and eplb_local_stats is None and active_rank_mask is None
        tokens, topk, most = token_selected_experts.size(0), self.top_k, runtime_max_tokens_per_rank
        assert token_selected_experts.dtype is torch.int32 and token_selected_experts.shape == (tokens, topk)
        for p in input_payloads:
            assert p.is_contiguous() and p.dim() == 2 and p.size(0) == tokens
        local, received, offset = self.num_experts // self.ep_size, [], 4096
        for p in input_payloads:
            view, offset = self._wrap(offset, (self.ep_size, most, p.size(1)), p.dtype)
            received.append(view)
        rows = []  # that arrive: their ranks, tokens and slots

        def work():
            peers = self.group.exchange((tokens, most, read(c_int32, token_selected_experts), [place(p) for p in input_payloads]))
            assert len({p[1] for p in peers}) == 1, "all ranks have one maximum"
            rows.clear()
            for r, (_, _, ids, places) in enumerate(peers):
                slot = 0
                for t in range(len(ids) // topk):
                    if not any(e // local == self.ep_rank for e in ids[t * topk : (t + 1) * topk]):
                        continue
                    for i, p in enumerate(input_payloads):
                        size = p.size(1) * p.element_size()
                        copy(address(received[i]) + (r * most + slot) * size, torch.mapped(places[i]) + t * size, size)
                    rows.append((r, t, r * most + slot))
                    slot += 1
            ids = received[expert_id_payload_index]
            kept = {slot for _, _, slot in rows}
            flat = read(c_int32, ids)
            write(c_int32, ids, [v if i // topk in kept else invalid_token_expert_id for i, v in enumerate(flat)])
            self.group.barrier()

        self.rows, self.tokens, self.most, self.offset, self.phase = rows, tokens, most, offset, "dispatched"
        self.group.run(work)
        return received

    def get_combine_payload_tensor_in_workspace(self, runtime_max_tokens_per_rank, hidden_size, dtype):
        if self.phase != "dispatched":
            raise RuntimeError("get_combine_payload_tensor_in_workspace called before successful dispatch")
        return self._wrap(self.offset, (self.ep_size, runtime_max_tokens_per_rank, hidden_size), dtype)[0]

    def combine(self, payload, runtime_max_tokens_per_rank, payload_in_workspace=False, output_dtype=None, output_scales=None,
                output_scalar_scale=1.0, sf_layout=None, output=None, *, use_low_precision=False, active_rank_mask=None):
        assert self.phase == "dispatched", "combine called before successful dispatch"
        assert runtime_max_tokens_per_rank == self.most and payload_in_workspace and payload.data_ptr() == self.workspace.data_ptr() + self.offset
        assert payload.dtype is torch.bfloat16 and payload.shape[:2] == (self.ep_size, self.most)
        hidden, tokens, mine = payload.size(2), self.tokens, self.rows
        out = torch.empty((tokens, hidden), dtype=torch.bfloat16, device="cuda")

        def work():
            parts = [[] for _ in range(tokens)]
            for at, rows in self.group.exchange((place(payload), mine)):
                for r, t, slot in rows:
                    if r == self.ep_rank:
                        parts[t].append(torch.mapped(at) + slot * 2 * hidden)
            for t, rows in enumerate(parts):
                total(address(out, t), rows, None, hidden)
            self.group.barrier()

        self.phase = "idle"
        self.group.run(work)
        return out
