class Mapping:
    def __init__(self, world_size=1, rank=0, gpus_per_node=8, *, cp_size=1, cp_config=None, tp_size=1, pp_size=1, moe_cluster_size=-1,
                 moe_tp_size=-1, moe_ep_size=-1, attn_tp_size=-1, attn_cp_size=-1, auto_parallel=False, enable_attention_dp=False):
        assert tp_size * pp_size * cp_size == world_size
        self.world_size, self.rank, self.moe_ep_size, self.moe_ep_rank = world_size, rank, moe_ep_size, rank % moe_ep_size
