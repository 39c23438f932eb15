"""Set Transformer (Lee et al. 2019) for multi-instance learning: is there a rare item, and how many of them?"""
import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
LAYERS = {}


def register(name):
    def deco(cls):
        LAYERS[name] = cls
        return cls
    return deco


@dataclass
class Args:
    d_in: int = 5
    dim: int = 24
    heads: int = 3
    inducing: int = 4
    layers: list = field(default_factory=lambda: ["isab", "sab"])
    max_items: int = 12
    batch: int = 8
    lr: float = 2e-3
    wd: float = 0.02
    pos_weight: float = 1.6
    count_weight: float = 0.3
    clip_value: float = 0.5
    beta: float = 0.9
    t0: int = 28


ARGS = Args()


class MAB(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, q, kv, pad=None):
        h, w = self.attn(q, kv, kv, key_padding_mask=pad, need_weights=True)
        h = self.ln0(q + h)
        return self.ln1(h + self.ff(h)), w


@register("sab")
class SAB(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.mab = MAB(args.dim, args.heads)

    def forward(self, x, pad):
        return self.mab(x, x, pad)[0]


@register("isab")
class ISAB(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.points = nn.Parameter(torch.empty(1, args.inducing, args.dim))
        nn.init.xavier_uniform_(self.points)
        self.gather, self.spread = MAB(args.dim, args.heads), MAB(args.dim, args.heads)

    def forward(self, x, pad):
        h, _ = self.gather(self.points.expand(len(x), -1, -1), x, pad)
        return self.spread(x, h)[0]


class SetTransformer(nn.Module):
    def __init__(self, args=ARGS):
        super().__init__()
        self.register_buffer("prior", torch.tensor(0.0))
        self.inp = nn.Linear(args.d_in, args.dim)
        self.encoder = nn.ModuleList(LAYERS[n](args) for n in args.layers)
        self.seed = nn.Parameter(torch.randn(1, 1, args.dim) * 0.02)
        self.pool = MAB(args.dim, args.heads)
        self.out = nn.Linear(args.dim, 2)

    def forward(self, x: Tensor, size: Tensor):
        pad = torch.arange(x.size(1), device=x.device) >= size.unsqueeze(1)
        h = self.inp(x)
        for layer in self.encoder:
            h = layer(h, pad)
        z, w = self.pool(self.seed.repeat(len(x), 1, 1), h, pad)
        logit, count = self.out(z[:, 0]).unbind(-1)
        return {"logit": logit + self.prior, "count": nn.functional.softplus(count), "attention": w[:, 0]}


class Bags(Dataset):
    def __init__(self, split):
        self.bags = {}
        with open(DATA / "items.csv", newline="") as f:
            for row in csv.DictReader(f):
                if row["split"] == split:
                    self.bags.setdefault(row["bag"], []).append(row)
        self.keys = sorted(self.bags, key=int)

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, i):
        rows = self.bags[self.keys[i]]
        x = torch.zeros(ARGS.max_items, ARGS.d_in)
        x[:len(rows)] = torch.tensor([[float(r[f"f{k}"]) for k in range(ARGS.d_in)] for r in rows])
        n = sum(int(r["rare"]) for r in rows)
        return x, torch.tensor(len(rows)), {"y": torch.tensor(float(n > 0)), "n": torch.tensor(float(n))}


def build_model():
    model = SetTransformer()
    ds = Bags("train")
    rate = np.mean([any(r["rare"] == "1" for r in b) for b in ds.bags.values()])
    model.prior.fill_(float(np.log(rate / (1 - rate))))
    return model


def build_dataset(split):
    return Bags(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=ARGS.batch, shuffle=split == "train")


bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(ARGS.pos_weight))
poisson = nn.PoissonNLLLoss(log_input=False, eps=1e-6)


def loss(outputs, labels):
    parts = {"bag": bce(outputs["logit"], labels["y"]), "count": poisson(outputs["count"], labels["n"])}
    parts["loss"] = parts["bag"] + ARGS.count_weight * parts["count"]
    return parts


@torch.no_grad()
def metric(outputs, labels):
    s, y = outputs["logit"], labels["y"]
    pos, neg = s[y > 0.5], s[y < 0.5]
    diff = pos[:, None] - neg[None]
    auc = ((diff > 0).float() + 0.5 * (diff == 0).float()).mean() if diff.numel() else torch.tensor(0.5)
    mae = (outputs["count"] - labels["n"]).abs().mean()
    a = outputs["attention"]
    focus = a.max(-1).values.mean()
    return {"auc": auc.item(), "mae": mae.item(), "focus": focus.item()}


class AdaBelief(torch.optim.Optimizer):
    """AdaBelief (Zhuang et al. 2020), decoupled decay, no rectification."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st.update(step=0, m=torch.zeros_like(p), s=torch.zeros_like(p))
                st["step"] += 1
                p.mul_(1 - g["lr"] * g["weight_decay"])
                st["m"].lerp_(p.grad, 1 - b1)
                d = p.grad - st["m"]
                st["s"].mul_(b2).addcmul_(d, d, value=1 - b2).add_(g["eps"])
                denom = (st["s"] / (1 - b2 ** st["step"])).sqrt().add_(g["eps"])
                p.addcdiv_(st["m"], denom, value=-g["lr"] / (1 - b1 ** st["step"]))


def build_optimizer(model):
    no_decay = [p for n, p in model.named_parameters() if p.ndim == 1 or n.endswith(("points", "seed"))]
    ids = set(map(id, no_decay))
    return AdaBelief([{"params": [p for p in model.parameters() if id(p) not in ids], "weight_decay": ARGS.wd},
                      {"params": no_decay}], lr=ARGS.lr, eps=1e-6)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=ARGS.t0, eta_min=1e-5)


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    optimizer.zero_grad()
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    nn.utils.clip_grad_value_(model.parameters(), ARGS.clip_value)
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    bag = torch.tensor(json.loads(Path(path).read_text())["items"])
    model.eval()
    out = model(bag[None], torch.tensor([len(bag)]))
    return {"probability": out["logit"].sigmoid().numpy(), "count": out["count"].numpy(),
            "attention": out["attention"][0].numpy(), "key_item": [int(out["attention"][0].argmax())]}
