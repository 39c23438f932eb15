"""Re-identification with BNNeck, batch-hard triplets and centre loss (Luo et al. 2019)."""
import json
import random
from argparse import Namespace
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
opt = Namespace(width=12, embed=20, P=4, K=3, lr=0.02, center_lr=0.01, wd=1e-3, center_weight=0.01, smooth=0.1,
                milestones=[50, 90], gamma=0.4, warmup=8, warmup_factor=0.1, proto=0.8, clip=5.0)


class IBN(nn.Module):
    """Instance norm on one half of the channels, group norm on the other."""

    def __init__(self, c):
        super().__init__()
        self.half = c // 2
        self.IN = nn.InstanceNorm2d(self.half, affine=True)
        self.GN = nn.GroupNorm(2, c - self.half)

    def forward(self, x):
        a, b = x.split([self.half, x.size(1) - self.half], 1)
        return torch.cat([self.IN(a), self.GN(b)], 1)


class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p, self.eps = nn.Parameter(torch.ones(1) * p), eps

    def forward(self, x):
        return F.adaptive_avg_pool2d(x.clamp(min=self.eps).pow(self.p), 1).pow(1.0 / self.p).flatten(1)


class SNLinear(nn.Linear):
    """Linear layer divided by its largest singular value; one power step per training forward."""

    def __init__(self, i, o):
        super().__init__(i, o)
        self.register_buffer("u", F.normalize(torch.randn(o), dim=0))
        self.register_buffer("v", F.normalize(torch.randn(i), dim=0))
        for _ in range(15):
            self.power_step()

    @torch.no_grad()
    def power_step(self):
        self.v.copy_(F.normalize(self.weight.t() @ self.u, dim=0))
        self.u.copy_(F.normalize(self.weight @ self.v, dim=0))

    def forward(self, x):
        if self.training:
            self.power_step()
        u, v = self.u.clone(), self.v.clone()
        return F.linear(x, self.weight / torch.dot(u, self.weight @ v), self.bias)


def stage(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), IBN(cout), nn.PReLU(cout))


class ReID(nn.Module):
    def __init__(self, n_ids):
        super().__init__()
        w = opt.width
        self.trunk = nn.Sequential(stage(1, w, 1), nn.MaxPool2d(2), stage(w, 2 * w, 2))
        self.pool = GeM()
        self.embed = SNLinear(2 * w, opt.embed)
        self.neck = nn.BatchNorm1d(opt.embed)
        self.neck.bias.requires_grad_(False)
        self.cls = nn.Linear(opt.embed, n_ids, bias=False)
        self.centers = nn.Parameter(torch.randn(n_ids, opt.embed))
        self.register_buffer("proto", torch.zeros(n_ids, opt.embed))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.cls.weight, std=0.05)

    def forward(self, img):
        feat = self.embed(self.pool(self.trunk(img)))
        after = self.neck(feat)
        return {"feat": feat, "unit": F.normalize(after, dim=1), "logits": self.cls(after), "centers": self.centers}


class People(Dataset):
    def __init__(self, split):
        z = np.load(DATA / f"{split}.npz")
        self.img, self.pid, self.cam = z["img"], z["pid"], z["cam"]

    def __len__(self):
        return len(self.pid)

    def __getitem__(self, i):
        x = torch.from_numpy(self.img[i]).float().div(255).sub(0.5).div(0.25)
        return x[None], {"pid": torch.tensor(int(self.pid[i])), "cam": torch.tensor(int(self.cam[i]))}


class PKSampler(Sampler):
    def __init__(self, pids):
        self.by_id, self.n = defaultdict(list), len(pids) // (opt.P * opt.K)
        for i, p in enumerate(pids):
            self.by_id[int(p)].append(i)

    def __len__(self):
        return self.n

    def __iter__(self):
        for _ in range(self.n):
            ids = random.sample(sorted(self.by_id), opt.P)
            yield [i for p in ids for i in random.sample(self.by_id[p], opt.K)]


def n_train_ids():
    return int(np.load(DATA / "train.npz")["pid"].max()) + 1


def build_model():
    return ReID(n_train_ids())


def build_dataset(split):
    return People(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_sampler=PKSampler(ds.pid))
    return DataLoader(ds, batch_size=16)


def distances(a, b):
    d2 = a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.t()
    return d2.clamp(min=1e-12).sqrt()


def loss(outputs, labels):
    pid, f = labels["pid"], outputs["feat"]
    ident = F.cross_entropy(outputs["logits"], pid, label_smoothing=opt.smooth)
    d, same = distances(f, f), pid[:, None] == pid[None]
    hardest = d.masked_fill(~same, -1.0).max(1).values
    nearest = d.masked_fill(same, float("inf")).min(1).values
    has = torch.isfinite(nearest)
    triplet = F.softplus((hardest - nearest)[has]).mean()
    center = (f - outputs["centers"][pid]).pow(2).sum(1).clamp(1e-12, 1e12).mean()
    total = ident + triplet + opt.center_weight * center
    return {"loss": total, "id": ident, "triplet": triplet, "center": center}


@torch.no_grad()
def metric(outputs, labels):
    """Rank-1 and mean average precision within the batch, each image a query once."""
    d = 1 - outputs["unit"] @ outputs["unit"].t()
    d.fill_diagonal_(float("inf"))
    rank1, aps = [], []
    for i, row in enumerate(d):
        order = row.argsort(stable=True)[:-1]
        hit = (labels["pid"][order] == labels["pid"][i]).float()
        if hit.sum() == 0:
            continue
        prec = hit.cumsum(0) / torch.arange(1, len(hit) + 1)
        aps.append((prec * hit).sum() / hit.sum())
        rank1.append(hit[0])
    if not aps:
        return {"rank1": 0.0, "map": 0.0}
    return {"rank1": torch.stack(rank1).mean().item(), "map": torch.stack(aps).mean().item()}


def build_optimizer(model):
    decay, rest = [], []
    for m in model.modules():
        for n, p in m.named_parameters(recurse=False):
            if p.requires_grad and n != "centers":
                (decay if isinstance(m, (nn.Conv2d, nn.Linear)) and n == "weight" else rest).append(p)
    return torch.optim.Adagrad([{"params": decay, "weight_decay": opt.wd}, {"params": rest},
                                {"params": [model.centers], "lr": opt.center_lr}],
                               lr=opt.lr, initial_accumulator_value=0.1, eps=1e-8)


class WarmupMultiStep(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        t = self.last_epoch
        warm = 1.0 if t >= opt.warmup else opt.warmup_factor + (1 - opt.warmup_factor) * t / opt.warmup
        drop = opt.gamma ** sum(t >= m for m in opt.milestones)
        return [b * warm * drop for b in self.base_lrs]


def build_scheduler(optimizer):
    return WarmupMultiStep(optimizer)


def train_step(model, optimizer, batch):
    img, labels = batch
    out = model(img)
    parts = loss(out, labels)
    optimizer.zero_grad()
    parts["loss"].backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p is not model.centers], opt.clip)
    model.centers.grad.mul_(1.0 / opt.center_weight)
    optimizer.step()
    with torch.no_grad():
        for p in labels["pid"].unique():
            model.proto[p] = opt.proto * model.proto[p] + (1 - opt.proto) * out["unit"][labels["pid"] == p].mean(0)
    return {k: v.item() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    pair = torch.tensor(json.loads(Path(path).read_text())["images"], dtype=torch.float32)
    model.eval()
    e = model(pair[:, None].div(255).sub(0.5).div(0.25))["unit"]
    dist = distances(e[:1], e[1:])[0]
    return {"embedding": e.numpy(), "distance": dist.numpy(), "nearest": [int(dist.argmin())],
            "verdict": " ".join("same" if d < 0.9 else "other" for d in dist)}
