"""DeepFM for click-through prediction (Guo et al., 2017)."""
import csv
import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
with open(os.path.join(DATA, "spec.json")) as fh:
    CFG = json.load(fh)


def encode(rows):
    cats = torch.tensor([[int(r[f]) for f in CFG["fields"]] for r in rows], dtype=torch.long)
    nums = torch.tensor([[float(r[f]) for f in CFG["numeric"]] for r in rows])
    return cats, torch.log1p(nums)


class ClickLog(Dataset):
    def __init__(self, split):
        with open(os.path.join(DATA, split + ".csv")) as fh:
            rows = list(csv.DictReader(fh))
        self.cats, self.nums = encode(rows)
        self.y = torch.tensor([float(r["click"]) for r in rows])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.cats[i], self.nums[i], self.y[i]


class FieldEmbeddings(nn.Module):
    def __init__(self, cards, dim):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, dim) for n in cards])
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)

    def forward(self, cats):
        return torch.stack([t(cats[:, j]) for j, t in enumerate(self.tables)], 1)


class DeepFM(nn.Module):
    def __init__(self, cards, n_num, k, hidden, dropout):
        super().__init__()
        self.first = FieldEmbeddings(cards, 1)
        self.second = FieldEmbeddings(cards, k)
        self.num_first = nn.Linear(n_num, 1, bias=False)
        self.num_second = nn.Parameter(torch.empty(n_num, k))
        self.bias = nn.Parameter(torch.zeros(()))
        layers, d = [], (len(cards) + n_num) * k
        for h in hidden:
            layers += [nn.Linear(d, h), nn.LayerNorm(h), nn.ReLU(), nn.Dropout(dropout)]
            d = h
        layers.append(nn.Linear(d, 1))
        self.deep = nn.Sequential(*layers)
        nn.init.normal_(self.num_second, std=0.05)
        for m in self.deep:
            if isinstance(m, nn.Linear):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)

    def forward(self, cats, nums):
        linear = self.first(cats).sum((1, 2)) + self.num_first(nums).squeeze(-1)
        v = torch.cat([self.second(cats), nums.unsqueeze(-1) * self.num_second], 1)
        fm = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(-1)
        return self.bias + linear + fm + self.deep(v.flatten(1)).squeeze(-1)


def build_model():
    return DeepFM(list(CFG["fields"].values()), len(CFG["numeric"]), CFG["k"], CFG["hidden"], CFG["dropout"])


def build_dataset(split):
    return ClickLog(split)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(build_dataset(split), CFG["batch_size"], shuffle=train, drop_last=train)


def loss(outputs, labels):
    e = CFG["label_smooth"]
    return F.binary_cross_entropy_with_logits(outputs, labels * (1 - e) + 0.5 * e,
                                              pos_weight=torch.tensor(1.5))


def metric(outputs, labels):
    p = torch.sigmoid(outputs)
    pos, neg = p[labels > 0.5], p[labels <= 0.5]
    d = pos[:, None] - neg[None, :]
    auc = ((d > 0).float() + 0.5 * (d == 0).float()).mean().item() if d.numel() else 0.5
    ne = F.binary_cross_entropy(p, labels).item()
    return {"auc": auc, "logloss": ne}


def build_optimizer(model):
    decay, plain, emb = [], [], []
    for name, p in model.named_parameters():
        if "tables" in name:
            emb.append(p)
        elif p.ndim < 2:
            plain.append(p)
        else:
            decay.append(p)
    return torch.optim.AdamW([
        {"params": decay, "weight_decay": CFG["weight_decay"]},
        {"params": plain, "weight_decay": 0.0},
        {"params": emb, "weight_decay": 0.0, "lr": CFG["lr"] * CFG["emb_lr_scale"]},
    ], lr=CFG["lr"], betas=(0.9, 0.98))


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / 10, (10 / (s + 1)) ** 0.5))


def train_step(model, optimizer, batch):
    """Two micro batches of half the size, one update."""
    model.train()
    optimizer.zero_grad()
    total = 0.0
    chunks = [t.chunk(CFG["accum"]) for t in batch]
    for cats, nums, y in zip(*chunks):
        l = loss(model(cats, nums), y) / CFG["accum"]
        l.backward()
        total += l.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {"loss": total, "grad_norm": norm.item()}


@torch.no_grad()
def predict(path, model):
    with open(path) as fh:
        rows = json.load(fh)
    model.eval()
    p = torch.sigmoid(model(*encode(rows)))
    return {"ctr": p.numpy(), "rank": torch.argsort(-p).numpy()}
