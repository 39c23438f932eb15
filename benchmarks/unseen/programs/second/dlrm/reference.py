"""DeepFM / DLRM hybrid for click prediction."""
import csv
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import log_loss, roc_auc_score
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
DENSE = ["age", "price", "visits"]
SIZES = {"site": 11, "device": 5, "city": 17}
BAG = 4


class DeepFM(nn.Module):
    def __init__(self, dim=8, n_words=23):
        super().__init__()
        self.embs = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in SIZES.items()})
        self.linear = nn.ModuleDict({k: nn.Embedding(n, 1) for k, n in SIZES.items()})
        self.words = nn.EmbeddingBag(n_words, dim, mode="mean", padding_idx=0)
        self.bottom = nn.Sequential(nn.BatchNorm1d(len(DENSE)), nn.Linear(len(DENSE), 16), nn.ReLU(), nn.Linear(16, dim), nn.ReLU())
        n = len(SIZES) + 2
        li, lj = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("li", li, persistent=False)
        self.register_buffer("lj", lj, persistent=False)
        self.cross_w = nn.ParameterList([nn.Parameter(torch.randn(n * dim) * 0.1) for _ in range(2)])
        self.cross_b = nn.ParameterList([nn.Parameter(torch.zeros(n * dim)) for _ in range(2)])
        self.top = nn.Sequential(nn.Linear(n * (n - 1) // 2 + dim + n * dim, 16), nn.PReLU(16), nn.Dropout(0.3), nn.Linear(16, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, dense, cats, words):
        keys = list(SIZES)
        e = [self.embs[k](cats[:, i]) for i, k in enumerate(keys)]
        first = torch.stack([self.linear[k](cats[:, i]) for i, k in enumerate(keys)], 0).sum(0)
        d = self.bottom(dense)
        t = torch.stack([d, *e, self.words(words)], dim=1)
        fm = 0.5 * (t.sum(1).pow(2) - t.pow(2).sum(1)).sum(1, keepdim=True)
        z = torch.bmm(t, t.transpose(1, 2))[:, self.li, self.lj]
        x0 = x = t.flatten(1)
        for w, b in zip(self.cross_w, self.cross_b):
            x = x0 * (x @ w).unsqueeze(1) + b + x
        deep = self.top(torch.cat([d, z, x], 1))
        return (self.bias + first + fm + deep).squeeze(1)


def build_model():
    return DeepFM()


def loss(outputs, labels):
    return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), pos_weight=torch.tensor(2.0, dtype=outputs.dtype))


def metric(outputs, labels):
    p = torch.sigmoid(outputs).detach().cpu().numpy()
    y = labels.numpy()
    res = {"logloss": log_loss(y, p, labels=[0, 1])}
    if len(set(y.tolist())) == 2:
        res["auc"] = roc_auc_score(y, p)
    else:
        res["auc"] = 0.5
    return res


def encode(path):
    with open(path) as f:
        rows = list(csv.DictReader(f))
    dense = np.array([[float(r[c]) if r[c] else 0.0 for c in DENSE] for r in rows], dtype="float32")
    cats = np.array([[int(r[c]) for c in SIZES] for r in rows]) % np.array(list(SIZES.values()))
    words = np.zeros((len(rows), BAG), "int64")
    for i, r in enumerate(rows):
        ids = [int(w) for w in r["words"].split("|")][:BAG]
        words[i, :len(ids)] = ids
    y = np.array([int(r.get("click", 0)) for r in rows])
    return np.log1p(dense), cats, words, y


class Clicks(Dataset):
    def __init__(self, split):
        self.dense, self.cats, self.words, self.y = encode(os.path.join(HERE, "clicks", split + ".csv"))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.dense[i], self.cats[i], self.words[i], self.y[i]


def build_dataset(split):
    return Clicks(split)


def build_dataloader(split):
    return DataLoader(Clicks(split), batch_size=8)


def build_optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1, eps=1e-10)


@torch.no_grad()
def predict(path, model):
    d, c, w, _ = encode(path)
    d = torch.from_numpy(d).to(model.bias.dtype)
    return torch.sigmoid(model(d, torch.from_numpy(c), torch.from_numpy(w)))
