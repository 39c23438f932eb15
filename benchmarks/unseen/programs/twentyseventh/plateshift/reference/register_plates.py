"""Affine registration of photographic plates: which map takes plate one onto plate two?"""
import csv
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from decoupled import DecoupledAdam  # noqa: E402

CFG = tomllib.loads((HERE / "settings.toml").read_text())
DATA = HERE.parent / "data"


class PlateNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c1, c2 = cfg["channels"]
        self.reach, self.passes = cfg["reach"], cfg["passes"]
        self.conv1 = nn.Conv2d(1, c1, 5, stride=2, padding=2)
        self.norm1 = nn.GroupNorm(2, c1)
        self.conv2 = nn.Conv2d(c1, c2, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(3, c2)
        self.match = nn.Conv2d((2 * self.reach + 1) ** 2, 8, 3, padding=1)
        cells = (CFG["data"]["side"] // 4) ** 2
        self.hidden = nn.Linear(8 * cells, cfg["hidden"])
        self.out = nn.Linear(cfg["hidden"], 6)
        self.register_buffer("limits", torch.tensor(cfg["limits"]), persistent=False)
        for conv in (self.conv1, self.conv2, self.match):
            nn.init.xavier_normal_(conv.weight, gain=1.2)
            nn.init.zeros_(conv.bias)
        nn.init.normal_(self.out.weight, std=0.05)
        nn.init.zeros_(self.out.bias)

    def features(self, x):
        x = F.silu(self.norm1(self.conv1(x)))
        x = F.silu(self.norm2(self.conv2(x)))
        return F.normalize(x, dim=1, eps=1e-6)

    def step(self, fixed, moving):
        fm = self.features(moving)
        b, c, h, w = fm.shape
        k = 2 * self.reach + 1
        near = F.unfold(fm, k, padding=self.reach).view(b, c, k * k, h, w)
        volume = torch.einsum("bchw,bckhw->bkhw", fixed, near)
        y = F.relu(self.match(volume)).flatten(1)
        delta = self.limits * torch.tanh(self.out(torch.tanh(self.hidden(y))))
        return delta.view(-1, 2, 3) + torch.eye(2, 3)

    def forward(self, fixed, moving):
        anchor = self.features(fixed)
        bottom = torch.tensor([[[0.0, 0.0, 1.0]]]).expand(fixed.shape[0], 1, 3)
        theta, first, seen = None, None, moving
        for _ in range(self.passes):
            new = self.step(anchor, seen)
            if theta is None:
                theta = first = new
            else:
                theta = theta @ torch.cat([new, bottom], dim=1)
            grid = F.affine_grid(theta.detach(), list(fixed.shape), align_corners=False)
            seen = F.grid_sample(moving, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return {"theta": theta, "first": first, "warped": seen, "fixed": fixed}


def build_model():
    return PlateNet(CFG["model"])


# -------------------------------------------------------------------- data
def standard(img):
    x = torch.from_numpy(img.astype(np.float32))
    return ((x - x.mean()) / (x.std(unbiased=False) + 1e-3)).unsqueeze(0)


class Plates(Dataset):
    def __init__(self, split):
        self.cfg = CFG["data"]
        self.pairs = np.load(DATA / f"{split}.npy")
        with open(DATA / "truth.csv") as f:
            rows = [r for r in csv.DictReader(f) if r["split"] == split]
        self.theta = torch.tensor([[float(r[k]) for k in ("a", "b", "tx", "c", "d", "ty")] for r in rows], dtype=torch.float64)
        self.quality = [self.cfg["grades"][r["grade"]] for r in rows]
        self.swap = self.cfg["swap_every"] if split == "train" else 0

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        fixed, moving = self.pairs[i]
        theta = self.theta[i].view(2, 3)
        if self.swap and i % self.swap == self.swap - 1:
            fixed, moving = moving, fixed
            inv = torch.linalg.inv(theta[:, :2])
            theta = torch.cat([inv, -inv @ theta[:, 2:]], dim=1)
        labels = {"theta": theta.float(), "quality": torch.tensor(self.quality[i], dtype=torch.float32)}
        return standard(fixed), standard(moving), labels


def build_dataset(split):
    return Plates(split)


def build_dataloader(split):
    data = build_dataset(split)
    size = CFG["data"]["batch"]
    if split == "train":
        order = np.random.default_rng(CFG["data"]["order_seed"]).permutation(len(data))
        return DataLoader(data, batch_sampler=[order[k : k + size].tolist() for k in range(0, len(data), size)])
    return DataLoader(data, batch_size=size)


# ---------------------------------------------------------- loss and metric
def local_ncc(a, b, window):
    def box(x):
        return F.avg_pool2d(x, window, stride=1, padding=window // 2, count_include_pad=False)

    ma, mb = box(a), box(b)
    va = box(a * a) - ma * ma
    vb = box(b * b) - mb * mb
    cov = box(a * b) - ma * mb
    return (cov * cov / (va.clamp(min=0) * vb.clamp(min=0) + 1e-2)).mean(dim=(1, 2, 3))


def loss(outputs, labels):
    cfg = CFG["loss"]
    ncc = local_ncc(outputs["fixed"], outputs["warped"], cfg["window"])
    q = labels["quality"] * (cfg["hard"] - ncc)
    truth = labels["theta"]

    def fit(theta):
        e = F.huber_loss(theta, truth, delta=cfg["huber"], reduction="none") / cfg["huber"]
        return (e.sum(dim=(1, 2)) * q).sum() / q.sum()

    det = torch.linalg.det(outputs["theta"][:, :, :2])
    volume = (torch.log(det.clamp(min=0.05)) ** 2).mean()
    final, first = fit(outputs["theta"]), fit(outputs["first"])
    total = final + cfg["first"] * first + cfg["volume"] * volume
    return {"loss": total, "final": final, "first": first, "match": ncc.mean(), "volume": volume}


@torch.no_grad()
def metric(outputs, labels):
    est, truth = outputs["theta"].double(), labels["theta"].double()
    corners = torch.tensor([[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]], dtype=torch.float64)
    gap = torch.einsum("bij,kj->bki", est - truth, corners) * (CFG["data"]["side"] / 2)
    err = gap.norm(dim=2).mean(dim=1)
    turn = torch.atan2(est[:, 1, 0], est[:, 0, 0]) - torch.atan2(truth[:, 1, 0], truth[:, 0, 0])
    size = torch.log(torch.linalg.det(est[:, :, :2]) / torch.linalg.det(truth[:, :, :2]))
    a, b = outputs["fixed"].double().flatten(1), outputs["warped"].double().flatten(1)
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    ncc = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
    return {
        "corner": float(err.mean()),
        "corner_p90": float(torch.quantile(err, 0.9)),
        "near": float((err < CFG["report"]["near"]).double().mean()),
        "turn": float(torch.rad2deg(turn).abs().mean()),
        "size": float(size.abs().mean()),
        "ncc": float(ncc.mean()),
    }


# ---------------------------------------------------------------- training
def build_optimizer(model):
    cfg = CFG["training"]
    buckets = {}
    for name, p in model.named_parameters():
        module = name.split(".")[0]
        key = (module in ("hidden", "out"), p.dim() > 1)
        buckets.setdefault(key, []).append(p)
    groups = [
        {"params": ps, "lr": cfg["lr"] * (cfg["head_scale"] if head else 1.0), "decay": cfg["decay"] if matrix else 0.0}
        for (head, matrix), ps in buckets.items()
    ]
    return DecoupledAdam(groups, lr=cfg["lr"], betas=tuple(cfg["betas"]), eps=cfg["eps"], clip=cfg["clip"])


def build_scheduler(optimizer):
    cfg = CFG["training"]
    sched = torch.optim.lr_scheduler
    rise = sched.LinearLR(optimizer, start_factor=cfg["warmup_from"], total_iters=cfg["warmup"])
    fall = sched.StepLR(optimizer, step_size=cfg["step"], gamma=cfg["gamma"])
    return sched.SequentialLR(optimizer, [rise, fall], milestones=[cfg["warmup"]])


def train_step(model, optimizer, batch):
    fixed, moving, labels = batch
    model.train()
    optimizer.zero_grad()
    n, micro = fixed.shape[0], CFG["training"]["micro"]
    total = 0.0
    final = 0.0
    for k in range(0, n, micro):
        part = {key: v[k : k + micro] for key, v in labels.items()}
        values = loss(model(fixed[k : k + micro], moving[k : k + micro]), part)
        share = len(part["quality"]) / n
        (values["loss"] * share).backward()
        total = total + values["loss"].detach() * share
        final = final + values["final"].detach() * share
    optimizer.step()
    return {"loss": total, "final": final}


# --------------------------------------------------------------- inference
def predict(path, model):
    pair = np.load(path)
    side = CFG["data"]["side"]
    h, w = pair.shape[1:]
    small = F.interpolate(torch.from_numpy(pair[:, None].astype(np.float32)), size=(side, side), mode="bilinear", align_corners=False)
    fixed, moving = (standard(x[0].numpy()).unsqueeze(0) for x in small)
    model.eval()
    with torch.no_grad():
        theta = model(fixed, moving)["theta"]
        full = torch.from_numpy(pair[1:2, None].astype(np.float32))
        grid = F.affine_grid(theta, [1, 1, h, w], align_corners=False)
        warped = F.grid_sample(full, grid, padding_mode="zeros", align_corners=False)[0, 0]
    t = theta[0].double()
    scale = torch.tensor([w / 2, h / 2], dtype=torch.float64)
    linear = scale[:, None] * t[:, :2] / scale[None, :]
    centre = (scale - 0.5)
    shift = scale * t[:, 2] + centre - linear @ centre
    diff = warped - torch.from_numpy(pair[0].astype(np.float32))
    return {
        "theta": t.numpy(),
        "pixel_map": torch.cat([linear, shift[:, None]], dim=1).numpy(),
        "warped": warped.numpy(),
        "rms": [float(diff.pow(2).mean().sqrt())],
        "verdict": "aligned" if abs(float(torch.linalg.det(t[:, :2])) - 1) < 0.05 else "scaled",
    }
