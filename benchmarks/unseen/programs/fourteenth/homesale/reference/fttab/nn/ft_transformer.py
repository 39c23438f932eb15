import torch
import torch.nn as nn
import torch.nn.functional as F

from .blocks import Block
from .tokenizer import FeatureTokenizer


class FTTransformer(nn.Module):
    def __init__(self, n_numeric, cardinalities, n_classes, dim, heads, layers, ffn_mult, dropout):
        super().__init__()
        self.tokenizer = FeatureTokenizer(n_numeric, cardinalities, dim)
        hidden = int(dim * ffn_mult)
        self.blocks = nn.ModuleList(
            Block(dim, heads, hidden, dropout, first=i == 0, last=i == layers - 1) for i in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.class_head = nn.Linear(dim, n_classes)
        self.value_head = nn.Linear(dim, 1)
        # learned log variances of the two tasks
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, num, missing, cat):
        x = self.tokenizer(num, missing, cat)
        for block in self.blocks:
            x = block(x)
        x = F.leaky_relu(self.norm(x[:, 0]), 0.1)
        return {"speed": self.class_head(x), "price": self.value_head(x).squeeze(-1), "log_vars": self.log_vars}
