import torch
import torch.nn.functional as F
from torch import nn

from .blocks import Residual, Stem
from .ringattn import RingAttention
from .rowgru import RowGRU
from .stitches import NAMES
from .turning import line_up


class KnitNet(nn.Module):
    def __init__(self, dim=16, width=24, groups=4, heads=2, meta=4, dilations=(1, 2)):
        super().__init__()
        kinds = len(NAMES)
        self.stitch = nn.Embedding(kinds, dim)
        self.stem = Stem(dim, groups)
        self.body = nn.ModuleList(Residual(dim, groups, d, meta) for d in dilations)
        self.rows = RowGRU(dim)
        self.attn = RingAttention(dim, heads, width)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, kinds)
        self.repeat = nn.Parameter(torch.tensor([0.2, 0.5]))
        self.net = nn.Linear(dim, 1)
        nn.init.normal_(self.stitch.weight, std=0.25)
        for layer in (self.head, self.net):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, rows, meta):
        rows = line_up(rows, meta[:, 2])
        x = self.stitch(rows).permute(0, 3, 1, 2)
        x = self.stem(x)
        for block in self.body:
            x = block(x, meta)
        x = self.rows(x).transpose(1, 2)
        x = self.norm(self.attn(x))
        logits = self.head(x)
        past = F.one_hot(rows[:, -2:], logits.shape[-1]).to(x.dtype)
        logits = logits + (past.flip(1) * self.repeat[None, :, None, None]).sum(1)
        return logits, self.net(x.mean(1)).squeeze(-1)
