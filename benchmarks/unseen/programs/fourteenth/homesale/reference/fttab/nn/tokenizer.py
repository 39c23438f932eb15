import math

import torch
import torch.nn as nn


class NumericTokens(nn.Module):
    def __init__(self, n_features, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_features, dim))
        self.bias = nn.Parameter(torch.empty(n_features, dim))
        self.missing = nn.Parameter(torch.empty(n_features, dim))
        for p in self.parameters():
            nn.init.uniform_(p, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, x, missing):
        known = x.unsqueeze(-1) * self.weight
        known = torch.where(missing.unsqueeze(-1) > 0.5, self.missing, known)
        return known + self.bias


class CategoryTokens(nn.Module):
    def __init__(self, cardinalities, dim):
        super().__init__()
        starts = torch.tensor([0] + list(cardinalities[:-1])).cumsum(0)
        self.register_buffer("starts", starts, persistent=False)
        self.table = nn.Embedding(sum(cardinalities), dim)
        self.bias = nn.Parameter(torch.empty(len(cardinalities), dim))
        for p in self.parameters():
            nn.init.uniform_(p, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def forward(self, x):
        return self.table(x + self.starts) + self.bias


class FeatureTokenizer(nn.Module):
    def __init__(self, n_numeric, cardinalities, dim):
        super().__init__()
        self.numeric = NumericTokens(n_numeric, dim)
        self.category = CategoryTokens(cardinalities, dim)
        self.cls = nn.Parameter(torch.randn(dim) * 0.02)

    def forward(self, num, missing, cat):
        cls = self.cls.expand(num.shape[0], 1, -1)
        return torch.cat([cls, self.numeric(num, missing), self.category(cat)], dim=1)
