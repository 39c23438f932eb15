"""Locate the faulted line of a small transmission grid from bus readings (PyTorch)."""
import csv
import json
import math
from collections import deque
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
CHANNELS = ("v", "a", "p")
KINDS = ("slack", "plant", "load")


class Registry(dict):
    def add(self, name):
        def wrap(obj):
            self[name] = obj
            return obj
        return wrap

    def make(self, spec, **extra):
        spec = dict(spec)
        return self[spec.pop("type")](**spec, **extra)


BLOCKS, LOSSES, METRICS = Registry(), Registry(), Registry()

SETTINGS = {
    "width": 24,
    "blocks": [
        {"type": "edge_attention", "heads": 3, "slope": 0.2},
        {"type": "edge_attention", "heads": 4, "slope": 0.1},
    ],
    "losses": [
        {"type": "location", "weight": 1.0, "calm_weight": 0.4, "smoothing": 0.06},
        {"type": "severity", "weight": 0.6, "beta": 0.15},
        {"type": "early_exit", "weight": 0.25, "temperature": 2.0},
    ],
    "metrics": ["top1", "top3", "balanced", "hops", "severity_mae"],
    "batch": 12,
    "lr": 3e-3,
    "head_lr": 6e-3,
    "decay": 0.05,
    "betas": (0.9, 0.98),
    "warmup": 9,
    "total": 48,
    "floor": 0.05,
    "clip": 1.0,
}


class Grid:
    def __init__(self, path=DATA / "grid.json"):
        raw = json.loads(path.read_text())
        self.buses = [b["name"] for b in raw["buses"]]
        self.kinds = [KINDS.index(b["kind"]) for b in raw["buses"]]
        self.lines = [l["name"] for l in raw["lines"]]
        where = {name: i for i, name in enumerate(self.buses)}
        self.ends = [(where[l["from"]], where[l["to"]]) for l in raw["lines"]]
        logx = np.log([l["x"] for l in raw["lines"]])
        logx = (logx - logx.mean()) / logx.std()
        rating = np.array([l["rating"] for l in raw["lines"]]) / 100.0
        self.features = np.stack([logx, rating], axis=1).astype("float32")

    def bus_distance(self):
        n = len(self.buses)
        near = [[] for _ in range(n)]
        for a, b in self.ends:
            near[a].append(b)
            near[b].append(a)
        out = np.zeros((n, n), dtype=int)
        for s in range(n):
            seen, queue = {s: 0}, deque([s])
            while queue:
                u = queue.popleft()
                for w in near[u]:
                    if w not in seen:
                        seen[w] = seen[u] + 1
                        queue.append(w)
            for t, d in seen.items():
                out[s, t] = d
        return out


GRID = Grid()


class Readings:
    """Scales readings by the per-bus statistics of the training rows."""

    def __init__(self):
        with open(DATA / "events.csv", newline="") as f:
            self.rows = list(csv.DictReader(f))
        raw = np.stack([self.matrix(r) for r in self.rows if r["split"] == "train"])
        self.mean = np.nanmean(raw, axis=0)
        self.std = np.nanstd(raw, axis=0, ddof=1)

    @staticmethod
    def matrix(row):
        n = len(GRID.buses)
        return np.array([[float(row[f"{c}{i + 1:02d}"] or "nan") for c in CHANNELS] for i in range(n)])

    def scale(self, raw):
        z = np.clip((raw - self.mean) / (self.std + 1e-6), -4.0, 4.0)
        lost = np.isnan(raw)
        z = np.where(lost, 0.0, z)
        return np.concatenate([z, lost.mean(axis=1, keepdims=True)], axis=1).astype("float32")


READINGS = Readings()


class EventSet(Dataset):
    def __init__(self, split):
        self.rows = [r for r in READINGS.rows if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        calm = row["fault"] == "none"
        line = len(GRID.lines) if calm else GRID.lines.index(row["fault"])
        x = torch.from_numpy(READINGS.scale(READINGS.matrix(row)))
        return x, {
            "line": torch.tensor(line),
            "severity": torch.tensor(float(row["severity"]), dtype=torch.float32),
        }


@BLOCKS.add("edge_attention")
class EdgeAttention(nn.Module):
    def __init__(self, width, heads, slope):
        super().__init__()
        self.heads, self.slope = heads, slope
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.edge = nn.Linear(2, width, bias=False)
        self.att = nn.Parameter(torch.empty(heads, width // heads))
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, h, src, dst, feats):
        b, n, w = h.shape
        split = (b, -1, self.heads, w // self.heads)
        q, k, v = (m(h).view(split) for m in (self.query, self.key, self.value))
        e = self.edge(feats).view(1, -1, self.heads, w // self.heads)
        mix = F.leaky_relu(q[:, dst] + k[:, src] + e, self.slope)
        score = (mix * self.att).sum(-1)
        place = dst.view(1, -1, 1).expand(b, -1, self.heads)
        top = torch.full((b, n, self.heads), -1e9).scatter_reduce(1, place, score.detach(), "amax")
        weight = torch.exp(score - top[:, dst])
        total = torch.zeros(b, n, self.heads).index_add(1, dst, weight)
        weight = weight / total[:, dst]
        moved = torch.zeros_like(v).index_add(1, dst, weight.unsqueeze(-1) * v[:, src])
        return self.norm(h + F.elu(self.out(moved.reshape(b, n, w))))


class GridNet(nn.Module):
    def __init__(self, settings):
        super().__init__()
        w = settings["width"]
        n = len(GRID.buses)
        self.kind = nn.Embedding(len(KINDS), 6)
        self.lift = nn.Linear(len(CHANNELS) + 1 + 6, w)
        self.blocks = nn.ModuleList(BLOCKS.make(s, width=w) for s in settings["blocks"])
        self.early_line = nn.Linear(2 * w + 2, 1)
        self.early_calm = nn.Linear(w, 1)
        self.head_line = nn.Sequential(nn.Linear(2 * w + 2, w), nn.ELU(), nn.Linear(w, 1))
        self.head_calm = nn.Linear(w, 1)
        self.head_severity = nn.Linear(2 * w, 1)
        a, b = (list(z) for z in zip(*GRID.ends))
        loops = list(range(n))
        feats = torch.from_numpy(GRID.features)
        self.src = torch.tensor(a + b + loops)
        self.dst = torch.tensor(b + a + loops)
        self.feats = torch.cat([feats, feats, torch.zeros(n, 2)])
        self.left, self.right, self.line_feats = torch.tensor(a), torch.tensor(b), feats
        self.kinds = torch.tensor(GRID.kinds)
        self.reset()

    def reset(self):
        for name, p in self.named_parameters():
            if ".norm." in name:
                continue
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif name.endswith("att"):
                nn.init.normal_(p, std=1 / math.sqrt(p.shape[1]))
            elif name.startswith("kind"):
                nn.init.normal_(p, std=0.5)
            elif name.startswith(("head", "early")):
                nn.init.kaiming_uniform_(p, a=math.sqrt(5))
            else:
                nn.init.xavier_normal_(p)
        nn.init.constant_(self.head_calm.bias, -0.5)
        nn.init.constant_(self.early_calm.bias, -0.5)

    def pairs(self, h):
        u, v = h[:, self.left], h[:, self.right]
        f = self.line_feats.expand(h.shape[0], -1, -1)
        return torch.cat([u + v, (u - v).abs(), f], dim=-1)

    def forward(self, x):
        kind = self.kind(self.kinds).expand(x.shape[0], -1, -1)
        h = torch.tanh(self.lift(torch.cat([x, kind], -1)))
        states = []
        for block in self.blocks:
            h = block(h, self.src, self.dst, self.feats)
            states.append(h)
        first = states[0]
        early = torch.cat([self.early_line(self.pairs(first)).squeeze(-1), self.early_calm(first.mean(1))], 1)
        final = torch.cat([self.head_line(self.pairs(h)).squeeze(-1), self.head_calm(h.mean(1))], 1)
        pooled = torch.cat([h.mean(1), h.amax(1)], -1)
        return {"logits": final, "early": early, "severity": F.softplus(self.head_severity(pooled)).squeeze(-1)}


@LOSSES.add("location")
class LocationLoss:
    def __init__(self, weight, calm_weight, smoothing):
        self.weight, self.smoothing = weight, smoothing
        self.classes = torch.ones(len(GRID.lines) + 1)
        self.classes[-1] = calm_weight

    def __call__(self, out, labels):
        return F.cross_entropy(out["logits"], labels["line"], weight=self.classes, label_smoothing=self.smoothing)


@LOSSES.add("severity")
class SeverityLoss:
    def __init__(self, weight, beta):
        self.weight, self.beta = weight, beta

    def __call__(self, out, labels):
        hit = (labels["line"] < len(GRID.lines)).float()
        each = F.smooth_l1_loss(out["severity"], labels["severity"], beta=self.beta, reduction="none")
        return (each * hit).sum() / hit.sum().clamp(min=1)


@LOSSES.add("early_exit")
class EarlyExitLoss:
    def __init__(self, weight, temperature):
        self.weight, self.temperature = weight, temperature

    def __call__(self, out, labels):
        t = self.temperature
        teacher = F.softmax(out["logits"].detach() / t, -1)
        return F.kl_div(F.log_softmax(out["early"] / t, -1), teacher, reduction="batchmean") * t * t


TERMS = {s["type"]: LOSSES.make(s) for s in SETTINGS["losses"]}


def loss(outputs, labels):
    parts = {name: term(outputs, labels) for name, term in TERMS.items()}
    parts["loss"] = sum(TERMS[n].weight * v for n, v in parts.items())
    return parts


DISTANCE = GRID.bus_distance()


@METRICS.add("top1")
def top1(logits, line, severity, truth):
    return (logits.argmax(1) == line).mean()


@METRICS.add("top3")
def top3(logits, line, severity, truth):
    best = np.argsort(-logits, axis=1, kind="stable")[:, :3]
    return (best == line[:, None]).any(1).mean()


@METRICS.add("balanced")
def balanced(logits, line, severity, truth):
    guess = logits.argmax(1)
    return np.mean([(guess[line == c] == c).mean() for c in np.unique(line)])


@METRICS.add("hops")
def hops(logits, line, severity, truth):
    """Mean distance between the likeliest line (calm left aside) and the true one."""
    real = line < len(GRID.lines)
    guess = logits[:, :-1].argmax(1)
    far = []
    for g, t in zip(guess[real], line[real]):
        far.append(min(DISTANCE[i, j] for i in GRID.ends[g] for j in GRID.ends[t]) + (g != t))
    return np.mean(far) if far else 0.0


@METRICS.add("severity_mae")
def severity_mae(logits, line, severity, truth):
    real = line < len(GRID.lines)
    return np.abs(severity - truth)[real].mean() if real.any() else 0.0


def metric(outputs, labels):
    args = [np.asarray(torch.as_tensor(t).detach()) for t in
            (outputs["logits"], labels["line"], outputs["severity"], labels["severity"])]
    return {name: float(METRICS[name](*args)) for name in SETTINGS["metrics"]}


def build_model():
    return GridNet(SETTINGS)


def build_dataset(split):
    return EventSet(split)


def build_dataloader(split):
    return DataLoader(EventSet(split), batch_size=SETTINGS["batch"], shuffle=split == "train")


def build_optimizer(model):
    groups = {"body": [], "plain": [], "head": []}
    for name, p in model.named_parameters():
        if name.startswith("head"):
            groups["head"].append(p)
        elif p.ndim < 2 or name.startswith("kind") or name.endswith("att"):
            groups["plain"].append(p)
        else:
            groups["body"].append(p)
    return torch.optim.AdamW(
        [
            {"params": groups["body"], "weight_decay": SETTINGS["decay"]},
            {"params": groups["plain"], "weight_decay": 0.0},
            {"params": groups["head"], "weight_decay": SETTINGS["decay"] / 5, "lr": SETTINGS["head_lr"]},
        ],
        lr=SETTINGS["lr"], betas=SETTINGS["betas"], eps=1e-7,
    )


def build_scheduler(optimizer):
    warm, total, floor = SETTINGS["warmup"], SETTINGS["total"], SETTINGS["floor"]

    def factor(step):
        if step < warm:
            return (step + 1) / (warm + 1)
        done = min(1.0, (step - warm) / (total - warm))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    x, labels = batch
    optimizer.zero_grad()
    parts = loss(model(x), labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["clip"])
    optimizer.step()
    return {**{k: float(v.detach()) for k, v in parts.items()}, "grad_norm": float(norm)}


@torch.no_grad()
def predict(path, model):
    model.eval()
    readings = json.loads(Path(path).read_text())["readings"]
    raw = np.full((len(GRID.buses), 3), np.nan)
    for c, channel in enumerate(("voltage", "angle", "power")):
        for i, bus in enumerate(GRID.buses):
            value = readings[channel].get(bus)
            if value is not None:
                raw[i, c] = value
    out = model(torch.from_numpy(READINGS.scale(raw))[None])
    p = F.softmax(out["logits"][0], -1).numpy()
    order = np.argsort(-p[:-1], kind="stable")
    alarm = bool(1 - p[-1] > 0.9)
    reach, chosen = 0.0, []
    for i in order:
        chosen.append(GRID.lines[i])
        reach += p[i] / (1 - p[-1])
        if reach >= 0.5:
            break
    return {
        "probabilities": p,
        "suspects": chosen,
        "severity": np.asarray(out["severity"][0].numpy() * (1 - p[-1])),
        "message": f"{'ALARM' if alarm else 'calm'} {chosen[0]}",
    }
