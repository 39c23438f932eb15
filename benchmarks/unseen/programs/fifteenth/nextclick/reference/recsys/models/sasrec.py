import torch
from torch import nn

from ..registry import MODELS
from .layers import Block


@MODELS.register("sasrec")
class SASRec(nn.Module):
    def __init__(self, cfg, num_items, max_len):
        super().__init__()
        self.cfg = cfg
        self.item_emb = nn.Embedding(num_items, cfg.dim, padding_idx=0)
        self.pos_emb = nn.Embedding(max_len, cfg.dim)
        self.emb_drop = nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.layers)])
        self.last_norm = nn.LayerNorm(cfg.dim, eps=cfg.norm_eps)
        self.item_bias = nn.Parameter(torch.zeros(num_items))
        self.reset_parameters()

    def reset_parameters(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.item_emb.weight, std=self.cfg.dim ** -0.5)
        nn.init.normal_(self.pos_emb.weight, std=0.02)
        with torch.no_grad():
            self.item_emb.weight[0].zero_()

    def encode(self, seq):
        valid = seq != 0
        positions = torch.arange(seq.shape[1], device=seq.device)
        x = self.item_emb(seq) * self.cfg.dim ** 0.5
        x = self.emb_drop(x + self.pos_emb(positions))
        x = x * valid.unsqueeze(-1)
        for block in self.blocks:
            x = block(x, valid)
        return self.last_norm(x)

    def forward(self, seq):
        hidden = self.encode(seq)
        return hidden @ self.item_emb.weight.t() + self.item_bias
