"""Cross-stitch networks (Misra et al., 2016) with squeeze-excitation and uncertainty weights."""
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
BATCH, EPOCHS, STEPS, LR = 8, 8, 14, 3e-3
WIDTHS = (8, 12, 16)


def normalise(img):
    x = torch.as_tensor(np.asarray(img), dtype=torch.float32) / 255.0
    return ((x - 0.25) / 0.35).unsqueeze(-3)


class Shapes(Dataset):
    def __init__(self, split):
        z = np.load(os.path.join(ROOT, split + ".npz"))
        self.z = {k: z[k] for k in z.files}

    def __len__(self):
        return len(self.z["shape"])

    def __getitem__(self, i):
        a = float(self.z["angle"][i])
        # the direction is only known up to half a turn: use the double angle
        return normalise(self.z["image"][i]), {
            "shape": torch.tensor(int(self.z["shape"][i])),
            "dir": torch.tensor([np.cos(2 * a), np.sin(2 * a)], dtype=torch.float32),
            "has": torch.tensor(bool(self.z["has_angle"][i]))}


class SE(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(c, c // r), nn.ReLU(), nn.Linear(c // r, c), nn.Hardsigmoid())

    def forward(self, x):
        return x * self.fc(x.mean((2, 3)))[:, :, None, None]


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.dw = nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False)
        self.pw = nn.Conv2d(i, o, 1, bias=False)
        self.norm = nn.GroupNorm(4, o)
        self.se = SE(o)

    def forward(self, x):
        return self.se(F.silu(self.norm(self.pw(self.dw(x)))))


class CrossStitch(nn.Module):
    """One 2x2 mixture per channel."""

    def __init__(self, c, own=0.9):
        super().__init__()
        a = torch.tensor([[own, 1 - own], [1 - own, own]])
        self.alpha = nn.Parameter(a[:, :, None].repeat(1, 1, c))

    def forward(self, xs):
        return torch.einsum("stc,tnchw->snchw", self.alpha, torch.stack(xs)).unbind(0)


class MTL(nn.Module):
    def __init__(self):
        super().__init__()
        self.stems = nn.ModuleList(nn.Conv2d(1, WIDTHS[0], 3, padding=1) for _ in range(2))
        self.towers = nn.ModuleList(
            nn.ModuleList(Block(i, o, 2 if k == 0 else 1) for k, (i, o) in enumerate(zip(WIDTHS, WIDTHS[1:])))
            for _ in range(2))
        self.stitch = nn.ModuleList(CrossStitch(o) for o in WIDTHS[1:])
        self.heads = nn.ModuleDict({"shape": nn.Linear(WIDTHS[-1], 3), "dir": nn.Linear(WIDTHS[-1], 2)})
        self.log_var = nn.Parameter(torch.tensor([0.0, -0.5]))
        self.apply(self.init)

    @staticmethod
    def init(m):
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.1, a=-0.2, b=0.2)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        xs = [stem(x) for stem in self.stems]
        for k, unit in enumerate(self.stitch):
            xs = unit([t[k](h) for t, h in zip(self.towers, xs)])
        pooled = [h.amax((2, 3)) * 0.5 + h.mean((2, 3)) * 0.5 for h in xs]
        return {"shape": self.heads["shape"](pooled[0]), "dir": torch.tanh(self.heads["dir"](pooled[1])),
                "log_var": self.log_var}


def build_model():
    return MTL()


def build_dataset(split):
    return Shapes(split)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(build_dataset(split), BATCH, shuffle=train, drop_last=train)


def loss(outputs, labels):
    ce = F.cross_entropy(outputs["shape"], labels["shape"])
    has = labels["has"]
    reg = F.mse_loss(outputs["dir"], labels["dir"], reduction="none").sum(1)[has].sum() / has.sum().clamp(min=1)
    s = outputs["log_var"]
    total = torch.exp(-s[0]) * ce + 0.5 * torch.exp(-s[1]) * reg + 0.5 * s.sum()
    return {"loss": total, "shape": ce, "dir": reg}


class MeanAngle:
    """Keeps sums, so that it can run over many batches."""

    def __init__(self):
        self.total, self.n = 0.0, 0

    def update(self, pred, true):
        d = torch.atan2(pred[:, 1], pred[:, 0]) - torch.atan2(true[:, 1], true[:, 0])
        d = torch.atan2(d.sin(), d.cos()).abs() / 2
        self.total, self.n = self.total + torch.rad2deg(d).sum().item(), self.n + len(d)

    def compute(self):
        return self.total / max(self.n, 1)


def metric(outputs, labels):
    m = MeanAngle()
    m.update(outputs["dir"][labels["has"]], labels["dir"][labels["has"]])
    acc = (outputs["shape"].argmax(1) == labels["shape"]).float().mean().item()
    return {"angle_deg": m.compute(), "acc": acc}


def build_optimizer(model):
    groups = {"decay": [], "plain": [], "fast": []}
    for n, p in model.named_parameters():
        key = "fast" if n.endswith(("alpha", "log_var")) else "plain" if p.ndim == 1 else "decay"
        groups[key].append(p)
    return torch.optim.AdamW([{"params": groups["decay"], "weight_decay": 0.05},
                              {"params": groups["plain"], "weight_decay": 0.0},
                              {"params": groups["fast"], "weight_decay": 0.0, "lr": 10 * LR}], lr=LR)


def build_scheduler(optimizer):
    total, warm = EPOCHS * STEPS, STEPS

    def factor(t):
        if t < warm:
            return (t + 1) / warm
        return 0.5 * (1 + np.cos(np.pi * min(1.0, (t - warm) / (total - warm))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    x, y = batch
    parts = loss(model(x), y)
    optimizer.zero_grad()
    parts["loss"].backward()
    optimizer.step()
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    with open(path) as fh:
        x = normalise(json.load(fh)["images"])
    model.eval()
    out = model(x)
    angle = 0.5 * torch.atan2(out["dir"][:, 1], out["dir"][:, 0])
    return {"prob": out["shape"].softmax(1).numpy(), "angle": angle.numpy()}
