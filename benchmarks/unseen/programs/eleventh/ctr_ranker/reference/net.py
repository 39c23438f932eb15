"""DCN-v2 with a factorisation machine, interest pooling over the history, and two towers."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from features import FIELDS


class FieldTable(nn.Module):
    """All fields in one matrix; every field begins at its own offset."""

    def __init__(self, sizes, dim, std):
        super().__init__()
        offsets = torch.tensor([0] + list(sizes)[:-1]).cumsum(0)
        self.register_buffer("offsets", offsets, persistent=False)
        self.table = nn.Embedding(sum(sizes), dim)
        nn.init.normal_(self.table.weight, std=std)

    def forward(self, sparse):
        return self.table(sparse + self.offsets)

    def field(self, ids, which):
        return self.table(ids + self.offsets[which])


class InterestPooling(nn.Module):
    """How much each clicked item has to do with the one that is shown (no softmax: strength counts)."""

    def __init__(self, dim, hidden=16):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * dim, hidden), nn.PReLU(), nn.Linear(hidden, 1))

    def forward(self, query, keys, mask):
        q = query.unsqueeze(1).expand_as(keys)
        weight = torch.sigmoid(self.score(torch.cat([q, keys, q - keys, q * keys], -1))).squeeze(-1)
        weight = weight * mask
        return (weight.unsqueeze(-1) * keys).sum(1) / mask.sum(1, keepdim=True).clamp(min=1.0)


class LowRankCross(nn.Module):
    def __init__(self, width, rank, layers):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(layers))
        for layer in list(self.down) + list(self.up):
            nn.init.xavier_normal_(layer.weight)
        for layer in self.up:
            nn.init.zeros_(layer.bias)

    def forward(self, x0):
        x = x0
        for down, up in zip(self.down, self.up):
            x = x0 * up(torch.tanh(down(x))) + x
        return x


class Tower(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.body = nn.Linear(width, 2 * out)
        self.norm = nn.LayerNorm(2 * out, eps=1e-6)
        self.head = nn.Linear(2 * out, out)

    def forward(self, x):
        return F.normalize(self.head(F.gelu(self.norm(self.body(x)))), dim=-1)


class Ranker(nn.Module):
    def __init__(self, cfg, buckets, n_dense=5):
        super().__init__()
        sizes = [buckets[f] for f in FIELDS]
        dim = cfg["dim"]
        self.embed = FieldTable(sizes, dim, std=0.1)
        self.linear = FieldTable(sizes, 1, std=0.01)
        self.linear_dense = nn.Linear(n_dense, 1)
        self.pool = InterestPooling(dim)
        width = (len(FIELDS) + 1) * dim + n_dense
        self.cross = LowRankCross(width, cfg["cross_rank"], cfg["cross_layers"])
        deep, last = [], width
        for size in cfg["hidden"]:
            deep += [nn.Linear(last, size), nn.BatchNorm1d(size, momentum=0.05), nn.PReLU(size), nn.Dropout(cfg["dropout"])]
            last = size
        self.deep = nn.Sequential(*deep)
        self.out = nn.Linear(width + last, 1)
        self.user_tower = Tower(3 * dim, cfg["tower"])
        self.item_tower = Tower(3 * dim + 1, cfg["tower"])

    def forward(self, dense, sparse, history):
        fields = self.embed(sparse)
        keys = self.embed.field(history, 1)
        mask = (history > 0).to(keys.dtype)
        interest = self.pool(fields[:, 1], keys, mask)
        vectors = torch.cat([fields, interest.unsqueeze(1)], 1)

        total = vectors.sum(1)
        pairs = 0.5 * (total.pow(2) - vectors.pow(2).sum(1)).sum(-1)
        first = self.linear(sparse).sum((1, 2)) + self.linear_dense(dense).squeeze(-1)

        flat = torch.cat([vectors.flatten(1), dense], -1)
        joint = torch.cat([self.cross(flat), self.deep(flat)], -1)
        logit = self.out(joint).squeeze(-1) + first + pairs

        # the towers must not see the shown item in the user's vector: mean of the history instead of the interest
        recent = (keys * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1.0)
        user = self.user_tower(torch.cat([fields[:, 0], fields[:, 4], recent], -1))
        item = self.item_tower(torch.cat([fields[:, 1], fields[:, 2].detach(), fields[:, 3], dense[:, :1]], -1))
        return {"logit": logit, "user": user, "item": item, "norm": fields.pow(2).sum((1, 2))}
