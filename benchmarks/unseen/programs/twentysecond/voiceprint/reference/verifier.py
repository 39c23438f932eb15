"""Speaker verification: log-mel front end, small TDNN with attentive pooling, angular-margin objective."""
import csv
import math
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
EPOCHS, BATCH = 8, 6


class Registry(dict):
    def add(self, name):
        def deco(cls):
            self[name] = cls
            return cls
        return deco

    def make(self, name, *args, **kw):
        return self[name](*args, **kw)


BLOCKS, POOLS, OBJECTIVES = Registry(), Registry(), Registry()


# ---------------------------------------------------------------- front end
class LogMel:
    rate, frame, hop, bands = 4000, 128, 64, 16
    fmin, fmax = 60.0, 1900.0

    def __init__(self):
        self.window = np.hanning(self.frame + 1)[:-1]
        self.bank = self._bank()

    def _bank(self):
        mel = lambda f: 2595.0 * np.log10(1.0 + f / 700.0)
        hz = lambda m: 700.0 * (10.0 ** (m / 2595.0) - 1.0)
        edges = hz(np.linspace(mel(self.fmin), mel(self.fmax), self.bands + 2))
        freqs = np.fft.rfftfreq(self.frame, 1.0 / self.rate)
        lo, mid, hi = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        tri = np.minimum((freqs - lo) / (mid - lo), (hi - freqs) / (hi - mid)).clip(min=0.0)
        return tri * (2.0 / (hi - lo))

    def __call__(self, wav):
        emph = np.concatenate([wav[:1], wav[1:] - 0.97 * wav[:-1]])
        frames = np.lib.stride_tricks.sliding_window_view(emph, self.frame)[:: self.hop]
        power = np.abs(np.fft.rfft(frames * self.window, axis=1)) ** 2 / self.frame
        logs = np.log(np.maximum(power @ self.bank.T, 1e-8)).T
        mu = logs.mean(axis=1, keepdims=True)
        sd = logs.std(axis=1, keepdims=True)
        return ((logs - mu) / (sd + 1e-5)).astype(np.float32)


def read_wav(path):
    with wave.open(str(path), "rb") as handle:
        raw = handle.readframes(handle.getnframes())
    return np.frombuffer(raw, dtype="<i2").astype(np.float64) / 32768.0


def manifest():
    with open(DATA / "manifest.csv", newline="") as handle:
        return list(csv.DictReader(handle))


SPEAKERS = sorted({row["speaker"] for row in manifest()})


class Clips(Dataset):
    def __init__(self, split):
        self.rows = [row for row in manifest() if row["split"] == split]
        self.front = LogMel()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        feats = self.front(read_wav(DATA / row["file"]))
        return torch.from_numpy(feats), torch.tensor(SPEAKERS.index(row["speaker"]))


class FixedShuffle(Sampler):
    def __init__(self, size, seed=3):
        self.order = np.random.default_rng(seed).permutation(size).tolist()

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


# ---------------------------------------------------------------- network
@BLOCKS.add("tdnn")
class TDNN(nn.Module):
    def __init__(self, cin, cout, k, dilation=1, groups=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation, groups=groups,
                              padding=dilation * (k // 2), bias=False)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


@BLOCKS.add("se")
class Squeeze(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)

    def forward(self, x):
        gate = torch.sigmoid(self.up(F.relu(self.down(x.mean(dim=2)))))
        return x * gate[:, :, None]


@POOLS.add("attentive")
class AttentiveStats(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.score1 = nn.Conv1d(channels, hidden, 1)
        self.score2 = nn.Conv1d(hidden, channels, 1, bias=False)

    def forward(self, x):
        alpha = torch.softmax(self.score2(torch.tanh(self.score1(x))), dim=2)
        mu = torch.sum(alpha * x, dim=2)
        var = torch.sum(alpha * x * x, dim=2) - mu * mu
        return torch.cat([mu, var.clamp(min=1e-4).sqrt()], dim=1)


class Verifier(nn.Module):
    def __init__(self, width=24, embed=16):
        super().__init__()
        self.entry = BLOCKS.make("tdnn", LogMel.bands, width, 5)
        self.body = BLOCKS.make("tdnn", width, width, 3, dilation=2, groups=2)
        self.gate = BLOCKS.make("se", width, 6)
        self.pool = POOLS.make("attentive", width, 8)
        self.project = nn.Linear(2 * width, embed)
        self.post = nn.LayerNorm(embed)
        self.prototypes = nn.Parameter(torch.empty(len(SPEAKERS), embed))
        self.reset()

    def reset(self):
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.constant_(module.bias, 0.01)
        nn.init.xavier_normal_(self.prototypes)

    def forward(self, x):
        h = self.entry(x)
        h = h + self.gate(self.body(h))
        e = self.post(self.project(self.pool(h)))
        cosine = F.linear(F.normalize(e, dim=1), F.normalize(self.prototypes, dim=1))
        return {"embedding": e, "cosine": cosine}


# ---------------------------------------------------------------- objective
@OBJECTIVES.add("aam")
class AngularMargin:
    def __init__(self, margin=0.2, scale=16.0, smooth=0.05, pull=0.1):
        self.margin, self.scale, self.smooth, self.pull = margin, scale, smooth, pull

    def __call__(self, outputs, labels):
        cos = outputs["cosine"]
        sin = torch.sqrt((1.0 - cos * cos).clamp(min=1e-7))
        phi = cos * math.cos(self.margin) - sin * math.sin(self.margin)
        floor = cos - math.sin(math.pi - self.margin) * self.margin
        phi = torch.where(cos > math.cos(math.pi - self.margin), phi, floor)
        hot = F.one_hot(labels, cos.shape[1]).to(cos.dtype)
        logits = self.scale * (hot * phi + (1.0 - hot) * cos)
        ce = F.cross_entropy(logits, labels, label_smoothing=self.smooth)
        pull = (1.0 - (hot * cos).sum(dim=1)).mean()
        return {"loss": ce + self.pull * pull, "ce": ce, "pull": pull}


OBJECTIVE = OBJECTIVES.make("aam")


# ---------------------------------------------------------------- interface
def build_model():
    return Verifier()


def build_dataset(split):
    return Clips(split)


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        return DataLoader(data, batch_size=BATCH, sampler=FixedShuffle(len(data)), drop_last=True)
    return DataLoader(data, batch_size=BATCH, shuffle=False)


def loss(outputs, labels):
    return OBJECTIVE(outputs, labels)


def metric(outputs, labels):
    cos = outputs["cosine"].detach().cpu().numpy().astype(np.float64)
    y = labels.detach().cpu().numpy()
    hot = np.eye(cos.shape[1], dtype=bool)[y]
    pos, neg = np.sort(cos[hot]), np.sort(cos[~hot])
    cuts = np.unique(cos)
    miss = np.searchsorted(pos, cuts, side="left") / len(pos)
    false = 1.0 - np.searchsorted(neg, cuts, side="left") / len(neg)
    best = np.argmin(np.abs(miss - false))
    cost = 0.1 * miss + 0.9 * false
    return {
        "accuracy": float((cos.argmax(axis=1) == y).mean()),
        "eer": float(0.5 * (miss[best] + false[best])),
        "min_dcf": float(cost.min() / 0.1),
        "gap": float(pos.mean() - neg.mean()),
        "spread": float(neg.std(ddof=1)),
    }


def build_optimizer(model):
    decay, plain, proto = [], [], []
    for name, p in model.named_parameters():
        (proto if name == "prototypes" else decay if p.ndim > 1 else plain).append(p)
    groups = [
        {"params": decay, "weight_decay": 0.02},
        {"params": plain, "weight_decay": 0.0},
        {"params": proto, "weight_decay": 0.002, "lr": 8e-3},
    ]
    return torch.optim.AdamW(groups, lr=4e-3, betas=(0.9, 0.98), eps=1e-6)


def build_scheduler(optimizer):
    total = EPOCHS * len(build_dataloader("train"))
    warm = total // 10

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        done = (step - warm) / (total - warm)
        return 0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    outputs = model(*inputs)
    parts = loss(outputs, labels)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    return {"loss": float(parts["loss"]), "ce": float(parts["ce"]), "grad_norm": float(norm)}


def predict(path, model):
    was = model.training
    model.eval()
    feats = torch.from_numpy(LogMel()(read_wav(path)))[None]
    with torch.no_grad():
        out = model(feats)
        prob = torch.softmax(OBJECTIVE.scale * out["cosine"], dim=1)[0]
        emb = F.normalize(out["embedding"], dim=1)[0]
    model.train(was)
    best = int(prob.argmax())
    ranked = torch.argsort(prob, descending=True)[:3].tolist()
    return {
        "speaker": SPEAKERS[best],
        "confidence": float(prob[best]),
        "embedding": emb.numpy(),
        "shortlist": [SPEAKERS[k] for k in ranked],
        "probabilities": prob.numpy(),
    }
