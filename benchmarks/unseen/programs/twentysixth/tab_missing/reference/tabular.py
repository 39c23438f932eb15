"""Income bands from a table with gaps (PyTorch)."""
import json
import pathlib

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

CSV = pathlib.Path(__file__).parents[1] / "data" / "people.csv"
NUMERIC = ["age", "income", "debt", "hours"]
CATEGORICAL = ["job", "city"]
BANDS = ["low", "mid", "high"]
WIDTH = 24
TRAIN_ROWS = 150


class Encoder:
    """Fitted on the training rows: moments, medians and category codes (0 is unknown)."""

    def __init__(self, frame):
        logged = self.logged(frame)
        self.mean, self.std = logged.mean(), logged.std(ddof=0)
        self.codes = {c: {v: i + 1 for i, v in enumerate(sorted(frame[c].dropna().unique()))} for c in CATEGORICAL}

    @staticmethod
    def logged(frame):
        out = frame[NUMERIC].astype("float64").copy()
        for c in ("income", "debt"):
            out[c] = np.log1p(out[c])
        return out

    def __call__(self, frame):
        z = (self.logged(frame) - self.mean) / self.std
        num = z.to_numpy(dtype=np.float32)              # NaN stays where a value is missing
        cat = np.stack([frame[c].map(self.codes[c]).fillna(0).astype("int64") for c in CATEGORICAL], axis=1)
        return torch.from_numpy(num), torch.from_numpy(cat)


def read():
    frame = pd.read_csv(CSV)
    return frame, Encoder(frame.iloc[:TRAIN_ROWS])


class People(Dataset):
    def __init__(self, split):
        frame, encoder = read()
        frame = frame.iloc[:TRAIN_ROWS] if split == "train" else frame.iloc[TRAIN_ROWS:]
        self.num, self.cat = encoder(frame)
        self.y = torch.tensor([BANDS.index(b) for b in frame["band"]])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.15)

    def forward(self, x):
        a, b = self.fc1(self.norm(x)).chunk(2, dim=-1)
        return x + self.drop(self.fc2(F.gelu(a, approximate="tanh") * b))


class TabNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.missing = nn.Parameter(torch.randn(len(NUMERIC)) * 0.1)
        self.scale = nn.Parameter(torch.empty(len(NUMERIC), 6).uniform_(-1.0, 1.0))
        self.emb = nn.ModuleList([nn.Embedding(6, 4), nn.Embedding(5, 3)])
        for e in self.emb:
            nn.init.trunc_normal_(e.weight, std=0.5, a=-1.0, b=1.0)
        self.inp = nn.Linear(len(NUMERIC) * 7 + 7, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.heads = nn.ModuleList([nn.Linear(WIDTH, len(BANDS)) for _ in range(3)])   # early exits
        self.gate = nn.Parameter(torch.zeros(3))

    def forward(self, num, cat):
        gone = torch.isnan(num)
        x = torch.where(gone, self.missing.expand_as(num), num)
        waves = torch.sin(x.unsqueeze(-1) * self.scale * 3.0).flatten(1)
        embs = [e(cat[:, j]) for j, e in enumerate(self.emb)]
        h = self.inp(torch.cat([x, waves] + embs, dim=1))
        exits = [self.heads[0](h)]
        for block, head in zip(self.blocks, self.heads[1:]):
            h = block(h)
            exits.append(head(h))
        exits = torch.stack(exits, dim=1)
        final = (exits * self.gate.softmax(0)[None, :, None]).sum(1)
        return {"final": final, "exits": exits}


def build_model():
    return TabNet()


def build_dataset(split):
    return People(split)


def build_dataloader(split):
    data = build_dataset(split)
    if split != "train":
        return DataLoader(data, batch_size=25)
    counts = torch.bincount(data.y, minlength=len(BANDS)).double()
    sampler = WeightedRandomSampler((1.0 / counts)[data.y], num_samples=len(data), replacement=True)
    return DataLoader(data, batch_size=12, sampler=sampler)


def focal(logits, y, gamma=1.5):
    ce = F.cross_entropy(logits, y, reduction="none")
    return ((1 - torch.exp(-ce)) ** gamma * ce).mean()


def loss(outputs, labels):
    terms = [focal(outputs["exits"][:, k], labels) for k in range(3)]
    main = focal(outputs["final"], labels)
    total = main + sum(w * t for w, t in zip((0.1, 0.2, 0.3), terms))
    return {"loss": total, "main": main}


def auc(score, positive):
    pos, neg = score[positive], score[~positive]
    if len(pos) == 0 or len(neg) == 0:
        return float("nan")
    diff = pos[:, None] - neg[None, :]
    return ((diff > 0).double() + 0.5 * (diff == 0).double()).mean().item()


@torch.no_grad()
def metric(outputs, labels):
    prob = outputs["final"].softmax(-1)
    guess = prob.argmax(-1)
    recalls = [(guess[labels == c] == c).double().mean().item() for c in range(3) if (labels == c).any()]
    exits = outputs["exits"].argmax(-1)
    onehot = F.one_hot(labels, 3)
    return {"accuracy": (guess == labels).double().mean().item(),
            "balanced": sum(recalls) / len(recalls),
            "auc_low": auc(prob[:, 0], labels == 0),
            "brier": (prob - onehot).pow(2).sum(-1).mean().item(),
            "agree": (exits == guess[:, None]).double().mean().item()}


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                m = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * b1 + p.grad * (1 - b1)).sign(), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def build_optimizer(model):
    heads = [p for n, p in model.named_parameters() if n.startswith(("heads", "gate"))]
    decay = [p for n, p in model.named_parameters() if not n.startswith(("heads", "gate")) and p.ndim > 1]
    rest = [p for n, p in model.named_parameters() if not n.startswith(("heads", "gate")) and p.ndim == 1]
    return Lion([{"params": decay, "weight_decay": 0.1}, {"params": rest}, {"params": heads, "lr": 1e-3}], lr=5e-4)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8 * 13, eta_min=0.0)


def train_step(model, optimizer, batch):
    model.train()
    num, cat, y = batch
    optimizer.zero_grad()
    parts = loss(model(num, cat), y)
    parts["loss"].backward()
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    _, encoder = read()
    frame = pd.DataFrame(json.loads(pathlib.Path(path).read_text()), columns=NUMERIC + CATEGORICAL)
    prob = model(*encoder(frame))["final"].softmax(-1)
    return {"prob": prob.numpy(), "band": [BANDS[i] for i in prob.argmax(-1).tolist()]}
