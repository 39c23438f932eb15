"""Near-infrared panel: concentrations and grain kind from a spectrum."""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parent))
from registry import CONFIG, MODELS  # noqa: E402
from spectra import Balanced, Panel, prepare  # noqa: E402

N, L, O, S = CONFIG.net, CONFIG.loss, CONFIG.optim, CONFIG.schedule


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.norm = nn.LayerNorm(width, eps=N.eps)
        self.down = nn.Linear(width, width // N.reduce)
        self.up = nn.Linear(width // N.reduce, width)
        nn.init.kaiming_uniform_(self.conv.weight, nonlinearity="relu")
        nn.init.zeros_(self.conv.bias)

    def forward(self, x):
        h = self.norm(F.relu(self.conv(x)).transpose(1, 2)).transpose(1, 2)
        gate = torch.sigmoid(self.up(torch.tanh(self.down(h.mean(-1)))))
        return x + h * gate.unsqueeze(-1)


@MODELS.register("dilated")
class Dilated(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(2, N.width, 7, stride=2, padding=3, bias=False)
        self.blocks = nn.ModuleList(Block(N.width, d) for d in N.dilations)
        self.head = nn.Linear(2 * N.width, 3)
        self.kind = nn.Linear(2 * N.width, 3)
        nn.init.trunc_normal_(self.stem.weight, std=0.1, a=-0.2, b=0.2)
        nn.init.orthogonal_(self.head.weight, gain=0.7)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        x = F.elu(self.stem(x), alpha=0.5)
        for b in self.blocks:
            x = b(x)
        z = torch.cat([x.mean(-1), x.logsumexp(-1) - np.log(x.shape[-1])], dim=1)
        return {"y": self.head(z), "kind": self.kind(z)}


def build_model():
    return MODELS["dilated"]()


def build_dataset(split):
    return Panel(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_sampler=Balanced(ds.kind))
    return DataLoader(ds, batch_size=10)


def loss(outputs, labels):
    w = torch.tensor(L.analyte_weights)
    reg = (F.huber_loss(outputs["y"], labels["y"], reduction="none", delta=L.delta) * w).sum(1).mean()
    ce = F.cross_entropy(outputs["kind"], labels["kind"])
    return {"loss": reg + L.kind_weight * ce, "reg": reg, "ce": ce}


@torch.no_grad()
def metric(outputs, labels):
    ds = Panel("val")
    std = torch.tensor(ds.std, dtype=torch.float32)
    e = (outputs["y"] - labels["y"]) * std
    y = labels["y"] * std
    res = {"accuracy": float((outputs["kind"].argmax(1) == labels["kind"]).float().mean())}
    for j, a in enumerate(CONFIG.data.analytes):
        bias = e[:, j].mean()
        sep = (e[:, j] - bias).pow(2).sum().div(len(e) - 1).sqrt()
        res[a + "_bias"], res[a + "_sep"] = float(bias), float(sep)
        res[a + "_rpd"] = float(y[:, j].std() / sep)
    return res


def build_optimizer(model):
    groups = {(h, d): [] for h in (0, 1) for d in (0, 1)}
    for n, p in model.named_parameters():
        groups[int(n.startswith(("head", "kind"))), int(p.ndim > 1)].append(p)
    return torch.optim.AdamW(
        [{"params": ps, "lr": O.lr * (O.head_scale if h else 1.0), "weight_decay": O.weight_decay * d} for (h, d), ps in groups.items()],
        lr=O.lr, betas=tuple(O.betas), eps=O.eps)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda e: S.final + (1 - S.final) * (1 - min(e, S.total) / S.total) ** S.power)


def train_step(model, optimizer, batch):
    model.train()
    x, labels = batch
    optimizer.zero_grad()
    parts = loss(model(x), labels)
    parts["loss"].backward()
    optimizer.step()
    return {k: float(v.detach()) for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    ds = Panel("train")
    out = model(torch.from_numpy(prepare(table[:, 1:].T)))
    conc = (out["y"].numpy() * ds.std + ds.mean).clip(min=0.0)
    p = F.softmax(out["kind"], dim=1).numpy()
    return {"scans": conc, "mean": conc.mean(0), "kind_probs": p.mean(0),
            "text": CONFIG.data.kinds[int(p.mean(0).argmax())]}
