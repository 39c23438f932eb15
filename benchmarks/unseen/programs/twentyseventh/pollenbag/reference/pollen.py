"""Severity of a pollen trap's day from the bag of grains under the microscope.

A bag has a varying number of grains; the grade (none < low < medium < high) is ordinal.
Everything is written as closures over a dictionary of parameters.
"""
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

DATA = Path(__file__).resolve().parent.parent / "data"
MAX_GRAINS = 12
WIDTH, HEADS, GRADES = 16, 4, 4
LR = 4e-3


def names():
    return json.loads((DATA / "names.json").read_text())


# ------------------------------------------------------------------- model
def make_attention(width, heads):
    d = width // heads
    parts = nn.ModuleDict({k: nn.Linear(width, width, bias=(k != "key")) for k in ("query", "key", "value", "out")})

    def run(x, mask):
        b, n, _ = x.shape
        q, k, v = (parts[s](x).view(b, n, heads, d) for s in ("query", "key", "value"))
        score = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(d)
        score = score.masked_fill(~mask[:, None, None, :], float("-inf"))
        att = torch.softmax(score, dim=-1)
        y = torch.einsum("bhij,bjhd->bihd", att, v).reshape(b, n, width)
        return parts["out"](y)

    return parts, run


def make_pool(width, hidden):
    parts = nn.ModuleDict({"tan": nn.Linear(width, hidden), "gate": nn.Linear(width, hidden), "score": nn.Linear(hidden, 1, bias=False)})

    def run(x, mask, log_count):
        s = parts["score"](torch.tanh(parts["tan"](x)) * torch.sigmoid(parts["gate"](x))).squeeze(-1)
        s = (s + log_count).masked_fill(~mask, float("-inf"))
        att = torch.softmax(s, dim=1)
        return torch.einsum("bn,bnc->bc", att, x), att

    return parts, run


class Bagger(nn.Module):
    def __init__(self, sites):
        super().__init__()
        self.site = nn.Embedding(sites + 1, WIDTH, padding_idx=0)
        self.embed = nn.Linear(6, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attend, self._attend = make_attention(WIDTH, HEADS)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.pool, self._pool = make_pool(WIDTH, 8)
        self.level = nn.Linear(WIDTH, 1)
        self.grain = nn.Linear(WIDTH, 1)
        self.steps = nn.Parameter(torch.empty(GRADES - 1))
        init_(self)

    def forward(self, bag, mask, site):
        shape, log_count = bag[..., :6], bag[..., 6]
        x = F.gelu(self.embed(shape), approximate="tanh")
        x = x + self._attend(self.norm1(x), mask)
        x = self.norm2(x)
        pooled, att = self._pool(x, mask, log_count)
        z = self.level(pooled + self.site(site))
        cuts = self.steps[0] + torch.cat([self.steps.new_zeros(1), F.softplus(self.steps[1:]).cumsum(0)])
        logits = z - cuts
        above = torch.sigmoid(logits)
        return {
            "logits": logits,
            "probs": torch.cat([1 - above[:, :1], above[:, :-1] - above[:, 1:], above[:, -1:]], dim=1),
            "attention": att,
            "grains": self.grain(x).squeeze(-1).masked_fill(~mask, 0.0),
            "mask": mask,
        }


def init_(net):
    for m in net.modules():
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=1.0 / math.sqrt(m.in_features))
            if m.bias is not None:
                nn.init.uniform_(m.bias, -0.05, 0.05)
    nn.init.orthogonal_(net.attend["out"].weight, gain=0.7)
    nn.init.normal_(net.site.weight, std=0.3)
    with torch.no_grad():
        net.site.weight[0].zero_()
        net.steps.copy_(torch.tensor([-0.5] + [0.2 * k for k in range(1, GRADES - 1)]))


def build_model():
    return Bagger(len(names()["sites"]))


# -------------------------------------------------------------------- data
def describe(raw, mean, std):
    g = raw["grains"]
    g = sorted(g, key=lambda q: -q["count"])[:MAX_GRAINS]
    bag = torch.zeros(MAX_GRAINS, 7)
    mask = torch.zeros(MAX_GRAINS, dtype=torch.bool)
    for i, grain in enumerate(g):
        bag[i, :6] = (torch.tensor(grain["shape"]) - mean) / std
        bag[i, 6] = math.log1p(grain["count"]) / 4
        mask[i] = True
    return bag, mask


def statistics():
    everything = json.loads((DATA / "bags.json").read_text())["train"]
    rows = torch.tensor([g["shape"] for b in everything for g in b["grains"]], dtype=torch.float64)
    return rows.mean(0).float(), rows.std(0).float()


def site_number(site):
    sites = names()["sites"]
    return sites.index(site) + 1 if site in sites else 0


def build_dataset(split):
    bags = json.loads((DATA / "bags.json").read_text())[split]
    mean, std = statistics()
    samples = []
    for raw in bags:
        bag, mask = describe(raw, mean, std)
        grade = torch.tensor(raw["grade"])
        known = raw["grade"] == 0
        samples.append((bag, mask, torch.tensor(site_number(raw["site"])), {"grade": grade, "clean": torch.tensor(float(known))}))
    return samples


def build_dataloader(split):
    data = build_dataset(split)
    if split == "val":
        return DataLoader(data, batch_size=9)
    order = sorted(range(len(data)), key=lambda i: ((i * 37) % 84, i))
    chunks = [order[k : k + 6] for k in range(0, len(order), 6)]
    return DataLoader(data, batch_sampler=chunks)


# ---------------------------------------------------------- loss and metric
def loss(outputs, labels):
    grade = labels["grade"]
    levels = torch.arange(GRADES - 1)
    target = (grade[:, None] > levels).float()
    weight = torch.tensor([1.0, 1.5, 2.5])
    ordinal = F.binary_cross_entropy_with_logits(outputs["logits"], target, pos_weight=weight, reduction="none")
    ordinal = ordinal.sum(dim=1).mean()

    mask = outputs["mask"].float()
    share = outputs["attention"].detach()
    log_p = torch.log_softmax(outputs["grains"].masked_fill(~outputs["mask"], -1e4), dim=1)
    agree = F.kl_div(log_p, share, reduction="batchmean")

    clean = labels["clean"]
    quiet = (torch.sigmoid(outputs["grains"]) * mask).sum(1) / mask.sum(1)
    quiet = (clean * quiet).sum() / clean.sum().clamp(min=1)
    return {"loss": ordinal + 0.3 * agree + 0.2 * quiet, "ordinal": ordinal, "agree": agree, "quiet": quiet}


def metric(outputs, labels):
    with torch.no_grad():
        grade = labels["grade"]
        guess = (outputs["logits"] > 0).sum(dim=1)
        table = torch.zeros(GRADES, GRADES, dtype=torch.float64)
        for t, g in zip(grade.tolist(), guess.tolist()):
            table[t, g] += 1
        i = torch.arange(GRADES, dtype=torch.float64)
        cost = (i[:, None] - i[None, :]) ** 2 / (GRADES - 1) ** 2
        expect = torch.outer(table.sum(1), table.sum(0)) / table.sum()
        den = float((cost * expect).sum())
        kappa = 1 - float((cost * table).sum()) / den if den > 0 else 0.0
        cum = outputs["probs"].double().cumsum(1)[:, :-1]
        truth = F.one_hot(grade, GRADES).double().cumsum(1)[:, :-1]
        att = outputs["attention"].double()
        eff = (1 / (att**2).sum(1)) / outputs["mask"].sum(1)
        return {
            "accuracy": float((grade == guess).double().mean()),
            "kappa": kappa,
            "mae": float((grade - guess).abs().double().mean()),
            "rps": float(((cum - truth) ** 2).sum(1).mean() / (GRADES - 1)),
            "effective": float(eff.mean()),
        }


# ---------------------------------------------------------------- training
def build_optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=LR, alpha=0.95, eps=1e-5, momentum=0.6, centered=True, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=16, T_mult=2, eta_min=LR * 0.05)


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    model.train()
    optimizer.zero_grad()
    out = model(*inputs)
    parts = loss(out, labels)
    parts["loss"].backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    with torch.no_grad():
        hit = ((out["logits"] > 0).sum(1) == labels["grade"]).float().mean()
    return {**{k: v.detach() for k, v in parts.items()}, "hit": hit}


# --------------------------------------------------------------- inference
def predict(path, model):
    raw = json.loads(Path(path).read_text())
    mean, std = statistics()
    bag, mask = describe(raw, mean, std)
    model.eval()
    with torch.no_grad():
        out = model(bag[None], mask[None], torch.tensor([site_number(raw["site"])]))
    n = int(mask.sum())
    p = out["probs"][0]
    att = out["attention"][0, :n]
    order = torch.argsort(att, descending=True, stable=True)
    need, mass = [], 0.0
    for i in order.tolist():
        need.append(i)
        mass += float(att[i])
        if mass >= 0.5:
            break
    grade = int((out["logits"][0] > 0).sum())
    return {
        "probs": p.numpy(),
        "attention": att.numpy(),
        "expected": [float((p * torch.arange(GRADES)).sum())],
        "key_grains": need,
        "total": [sum(g["count"] for g in raw["grains"])],
        "grade": names()["grades"][grade],
    }
