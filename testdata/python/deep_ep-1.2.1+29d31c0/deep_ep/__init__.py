"""DeepEP before ElasticBuffer."""
import torch
from standin_buffer import Buffer, Config, EventOverlap

topk_idx_t = torch.int64
