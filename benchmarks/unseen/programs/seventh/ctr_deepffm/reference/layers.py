import torch
import torch.nn as nn


class FeaturesLinear(nn.Module):
    def __init__(self, total, genres, dense):
        super().__init__()
        self.fc = nn.Embedding(total, 1)
        self.genre = nn.EmbeddingBag(genres, 1, mode="sum", padding_idx=0)
        self.dense = nn.Linear(dense, 1)

    def forward(self, cats, dense, genres):
        return self.fc(cats).sum(1) + self.genre(genres) + self.dense(dense)


class FactorizationMachine(nn.Module):
    def forward(self, x):
        return 0.5 * (x.sum(1) ** 2 - (x**2).sum(1)).sum(1, keepdim=True)


class FieldAware(nn.Module):
    """One table for each field that may stand on the other side."""

    def __init__(self, total, fields, dim):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(total, dim) for _ in range(fields))

    def forward(self, cats):
        xs = [table(cats) for table in self.tables]
        n, out = len(xs), 0
        for i in range(n - 1):
            for j in range(i + 1, n):
                out = out + (xs[j][:, i] * xs[i][:, j]).sum(-1, keepdim=True)
        return out / (n * (n - 1) / 2)


class Dice(nn.Module):
    """Data-adaptive activation over the features of a sample."""

    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((dim,), 0.25))
        self.eps = eps

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        p = torch.sigmoid((x - mean) / torch.sqrt(var + self.eps))
        return p * x + (1 - p) * self.alpha * x


class CrossNet(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.w = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for w in self.w:
            x = x0 * w(x) + x
        return x


class MLP(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        layers = []
        for h in hidden:
            layers += [nn.Linear(dim, h), nn.LayerNorm(h), Dice(h), nn.Dropout(dropout)]
            dim = h
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)
