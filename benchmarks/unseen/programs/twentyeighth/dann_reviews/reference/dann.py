"""Domain-adversarial training (Ganin et al. 2016) on bags of review tokens."""
import json
import math
import os
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
cfg = SimpleNamespace(dim=24, hidden=32, classes=3, max_len=14, batch=10, lr=0.05, momentum=0.9, wd=5e-4,
                      feature_lr=0.1, total=112, smoothing=0.1, lam_max=0.5, lam_floor=0.1)

with open(os.path.join(DATA, "vocab.txt")) as fh:
    VOCAB = {w: i + 2 for i, w in enumerate(fh.read().split())}      # 0 pads, 1 stands for unknown words


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.lam * grad, None


class Reversal(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    @property
    def lam(self):
        p = self.step.item() / cfg.total
        return max(cfg.lam_floor, cfg.lam_max * (2 / (1 + math.exp(-10 * p)) - 1))

    def forward(self, x):
        return GradReverse.apply(x, self.lam)


def head(out):
    return nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.BatchNorm1d(cfg.hidden), nn.LeakyReLU(0.1),
                         nn.Linear(cfg.hidden, out))


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(len(VOCAB) + 2, cfg.dim, mode="mean", padding_idx=0)
        self.features = nn.Sequential(nn.Linear(cfg.dim, cfg.hidden, bias=False), nn.BatchNorm1d(cfg.hidden),
                                      nn.ReLU(), nn.Dropout(0.2))
        self.reverse = Reversal()
        self.classifier, self.domain = head(cfg.classes), head(1)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, nn.Linear):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, tokens):
        h = self.features(self.embed(tokens))
        return {"label": self.classifier(h), "domain": self.domain(self.reverse(h)).squeeze(-1)}


def encode(text):
    ids = [VOCAB.get(w, 1) for w in text.lower().split()][:cfg.max_len]
    return ids + [0] * (cfg.max_len - len(ids))


class Reviews(Dataset):
    def __init__(self, split):
        with open(os.path.join(DATA, "reviews.json")) as f:
            self.rows = [r for r in json.load(f) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        target = r["domain"] == "target"
        y = -1 if target and r["split"] == "train" else r["label"]
        return torch.tensor(encode(r["text"])), {"y": torch.tensor(y), "d": torch.tensor(float(target))}


def build_model():
    return DANN()


def build_dataset(split):
    return Reviews(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split != "train":
        return DataLoader(ds, cfg.batch)
    dom = np.array([r["domain"] == "target" for r in ds.rows])
    w = np.where(dom, 1 / dom.sum(), 1 / (~dom).sum())
    return DataLoader(ds, cfg.batch, sampler=WeightedRandomSampler(torch.as_tensor(w), len(ds)))


def loss(outputs, labels):
    y, d = labels["y"], labels["d"]
    n = (y >= 0).sum().clamp(min=1)
    cls = F.cross_entropy(outputs["label"], y, ignore_index=-1, label_smoothing=cfg.smoothing, reduction="sum") / n
    dom = F.binary_cross_entropy_with_logits(outputs["domain"], d)
    return {"loss": cls + dom, "class": cls, "domain": dom}


def metric(outputs, labels):
    y, keep = labels["y"], labels["y"] >= 0
    pred = outputs["label"].argmax(1)
    f1 = []
    for k in range(cfg.classes):
        tp = ((pred == k) & (y == k) & keep).sum().item()
        denom = ((pred == k) & keep).sum().item() + (y == k).sum().item()
        f1.append(2 * tp / denom if denom else 0.0)
    dom = ((outputs["domain"] > 0) == labels["d"].bool()).float().mean().item()
    return {"macro_f1": sum(f1) / len(f1), "domain_acc": dom}


def build_optimizer(model):
    groups = {}
    for name, p in model.named_parameters():
        slow = name.startswith(("embed", "features"))
        decay = p.ndim > 1 and not name.startswith("embed")
        groups.setdefault((slow, decay), []).append(p)
    return torch.optim.SGD([{"params": ps, "lr": cfg.lr * (cfg.feature_lr if slow else 1.0),
                             "weight_decay": cfg.wd if decay else 0.0}
                            for (slow, decay), ps in sorted(groups.items(), key=lambda kv: kv[0][0])],
                           lr=cfg.lr, momentum=cfg.momentum, nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: (1 + 10 * s / cfg.total) ** -0.75)


def train_step(model, optimizer, batch):
    tokens, labels = batch
    losses = loss(model(tokens), labels)
    optimizer.zero_grad()
    losses["loss"].backward()
    optimizer.step()
    lam = model.reverse.lam
    model.reverse.step += 1
    return {**{k: v.item() for k, v in losses.items()}, "lambda": lam}


@torch.no_grad()
def predict(path, model):
    with open(path) as f:
        texts = json.load(f)["texts"]
    model.eval()
    out = model(torch.tensor([encode(t) for t in texts]))
    prob = out["label"].softmax(-1)
    return {"prob": prob.numpy(), "label": prob.argmax(-1).tolist(), "p_target": out["domain"].sigmoid().numpy()}
