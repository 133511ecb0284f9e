"""A make-believe deep_ep of UCCL da914a20 (ep/deep_ep_wrapper): DeepEP's Buffer over a group of torch."""
import torch
from standin import PEERS, Members, group_of
from standin_buffer import Buffer as DeepEP, Config, EventOverlap

HIDDEN = (2048, 2560, 4096, 5120, 6144, 7168, 8192)


class Buffer(DeepEP):
    def __init__(self, group, num_nvl_bytes=0, num_rdma_bytes=0, low_latency_mode=False, num_qps_per_rank=24,
                 allow_nvlink_for_low_latency_mode=True, allow_mnnvl=False, explicitly_destroy=False, is_intranode=None):
        members = Members(group)
        self.group = group_of(members)
        self.rank, self.group_size = members.Get_rank(), members.Get_size()
        assert is_intranode is (self.group_size <= PEERS), "proxies are for several nodes, and needed there"
        assert num_nvl_bytes % 128 == 0 and num_rdma_bytes % 128 == 0 and not allow_mnnvl
        assert (num_nvl_bytes == 0) == low_latency_mode
        assert is_intranode or num_qps_per_rank >= self.num_sms
        assert not is_intranode or self.group_size in (2, 4, 8)
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        self.num_qps_per_rank, self.nvshmem_qp_depth = num_qps_per_rank, 1024
        self.clean = self.pending = None
        assert all(d == (num_nvl_bytes, num_rdma_bytes) for d in members.allgather((num_nvl_bytes, num_rdma_bytes)))
        self.runtime = True

    # Two nodes, whatever their size, have the chunks of sixteen ranks.
    @staticmethod
    def get_dispatch_config(num_ranks):
        return Config(Buffer.num_sms, 36, 288, 20, 128) if num_ranks > PEERS else DeepEP.get_dispatch_config(num_ranks)

    @staticmethod
    def get_combine_config(num_ranks):
        return Config(Buffer.num_sms, 4, 288, 12, 128) if num_ranks > PEERS else DeepEP.get_combine_config(num_ranks)

    def dispatch(self, x, *args, **given):
        assert given.get("handle") is None and given["config"] is not None
        assert self.group_size <= PEERS or given["config"].rdma_send >= 12, "fewer RDMA chunks than warps of a forwarder"
        values = x[0] if isinstance(x, tuple) else x
        assert values.size(1) in HIDDEN and given["topk_idx"].size(1) <= 16
        if isinstance(x, tuple):
            assert values.dtype is torch.float8_e4m3fn
            assert x[1].numel() == 0 or x[1].stride(0) == 1, "scales must be column-major"
        return super().dispatch(x, *args, **given)

    def low_latency_dispatch(self, x, *args, **given):
        assert x.size(1) in HIDDEN
        return super().low_latency_dispatch(x, *args, **given)
