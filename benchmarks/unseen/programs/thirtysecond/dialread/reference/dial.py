"""Reading analogue gauges: pointer direction, kind of gauge, and span of the scale."""
import csv
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
KINDS = ("bar", "degC", "volt")


class Registry(dict):
    def add(self, name):
        def wrap(cls):
            self[name] = cls
            return cls
        return wrap


LAYERS = Registry()
HEADS = Registry()
TERMS = Registry()


# ---------------------------------------------------------------- model
@LAYERS.add("coords")
class AddCoords(nn.Module):
    """Appends x, y (up is positive) and the radius as channels."""

    def forward(self, x):
        b, _, h, w = x.shape
        xs = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(b, 1, h, w)
        ys = torch.linspace(1, -1, h).view(1, 1, h, 1).expand(b, 1, h, w)
        return torch.cat([x, xs, ys, (xs ** 2 + ys ** 2).sqrt()], dim=1)


@LAYERS.add("squeeze")
class Squeeze(nn.Module):
    def __init__(self, ch, ratio=4):
        super().__init__()
        self.down = nn.Linear(ch, ch // ratio)
        self.up = nn.Linear(ch // ratio, ch)

    def forward(self, x):
        s = torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))
        return x * s[:, :, None, None]


@LAYERS.add("stem")
class Stem(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False)
        self.norm = nn.GroupNorm(4, cout)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


@LAYERS.add("sep")
class Separable(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, stride=stride, padding=1, groups=cin, bias=False)
        self.norm1 = nn.GroupNorm(4, cin)
        self.point = nn.Conv2d(cin, cout, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, cout)
        self.gate = LAYERS["squeeze"](cout)
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        y = F.silu(self.norm1(self.depth(x)))
        y = self.gate(self.norm2(self.point(y)))
        if self.skip:
            y = y + x
        return F.silu(y)


@LAYERS.add("gem")
class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-4):
        super().__init__()
        self.p = nn.Parameter(torch.full((1,), p))
        self.eps = eps

    def forward(self, x):
        return x.clamp(min=self.eps).pow(self.p).mean((-2, -1)).pow(1.0 / self.p)


@LAYERS.add("softargmax")
class SoftArgmax(nn.Module):
    """Expected (x, y) of every channel's heat map."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, x):
        b, c, h, w = x.shape
        a = torch.softmax(self.beta * x.reshape(b, c, h * w), dim=-1).reshape(b, c, h, w)
        ex = torch.einsum("bchw,w->bc", a, torch.linspace(-1, 1, w))
        ey = torch.einsum("bchw,h->bc", a, torch.linspace(1, -1, h))
        return torch.cat([ex, ey], dim=1)


@HEADS.add("direction")
class Direction(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hid = nn.Linear(width, 20)
        self.out = nn.Linear(20, 2)

    def forward(self, z):
        v = self.out(torch.tanh(self.hid(z)))
        return F.normalize(v, dim=-1, eps=1e-6)


@HEADS.add("kind")
class Kind(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, len(KINDS))

    def forward(self, z):
        return self.out(z)


@HEADS.add("span")
class Span(nn.Module):
    """Looks on: it does not send gradients into the trunk."""

    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, z):
        return torch.sigmoid(self.out(z.detach())).squeeze(-1)


class DialReader(nn.Module):
    plan = [("sep", dict(cin=12, cout=16, stride=2)),
            ("sep", dict(cin=16, cout=16)),
            ("sep", dict(cin=16, cout=24, stride=2))]

    def __init__(self):
        super().__init__()
        self.coords = LAYERS["coords"]()
        self.stem = LAYERS["stem"](4, 12)
        self.blocks = nn.ModuleList(LAYERS[k](**kw) for k, kw in self.plan)
        self.gem = LAYERS["gem"]()
        self.where = LAYERS["softargmax"](beta=2.0)
        self.heads = nn.ModuleDict({
            "direction": HEADS["direction"](24 + 48),
            "kind": HEADS["kind"](24),
            "span": HEADS["span"](24 + 48)})
        self.temper = nn.Parameter(torch.tensor([0.0, 0.5, -0.5]))
        self.reset()

    def reset(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight, gain=0.8)
                nn.init.zeros_(m.bias)
        for b in self.blocks:
            if b.skip:
                nn.init.constant_(b.norm2.weight, 0.2)
        prior = torch.tensor([0.5, 0.3, 0.2])
        with torch.no_grad():
            self.heads["kind"].out.bias.copy_(prior.log())

    def forward(self, image):
        x = self.stem(self.coords(image))
        for b in self.blocks:
            x = b(x)
        g = self.gem(x)
        z = torch.cat([g, self.where(x)], dim=1)
        return {"direction": self.heads["direction"](z),
                "kind": self.heads["kind"](g),
                "span": self.heads["span"](z),
                "temper": self.temper}


def build_model():
    return DialReader()


# ---------------------------------------------------------------- data
class Dials(Dataset):
    def __init__(self, split):
        self.split = split
        self.mean, self.std = self.moments()
        sheet = self.sheet(split)
        self.rows = []
        for r in self.table(split):
            if split == "train" and r["sharp"] == "0":
                continue
            i = int(r["tile"])
            y, x = divmod(i, sheet.shape[1] // 32)
            self.rows.append((i, sheet[32 * y:32 * y + 32, 32 * x:32 * x + 32],
                              math.radians(float(r["degrees"])), KINDS.index(r["kind"]), float(r["span"])))

    @staticmethod
    def sheet(split):
        return np.asarray(Image.open(os.path.join(ROOT, f"sheet_{split}.png")), dtype=np.float32)

    @staticmethod
    def table(split):
        with open(os.path.join(ROOT, f"sheet_{split}.csv"), newline="") as f:
            return list(csv.DictReader(f))

    @classmethod
    def moments(cls):
        s = cls.sheet("train") / 255.0
        return float(s.mean()), float(torch.from_numpy(s).double().std(unbiased=False))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        i, tile, angle, kind, span = self.rows[k]
        img = (tile / 255.0 - self.mean) / self.std
        if self.split == "train":
            rng = np.random.RandomState(7919 * i + 5)
            turns = int(rng.randint(4))
            gain = rng.uniform(0.8, 1.2)
            img = np.rot90(img, turns) * gain
            angle = angle + turns * math.pi / 2
        angle = math.atan2(math.sin(angle), math.cos(angle))
        x = torch.from_numpy(np.ascontiguousarray(img[None], dtype=np.float32))
        return x, {"angle": torch.tensor(angle, dtype=torch.float32),
                   "kind": torch.tensor(kind), "span": torch.tensor(span, dtype=torch.float32)}


class Reshuffle(Sampler):
    """A new permutation at every pass, the same in every run."""

    def __init__(self, n, seed=41):
        self.n, self.seed, self.turn = n, seed, 0

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.turn).permutation(self.n)
        self.turn += 1
        return iter(order.tolist())

    def __len__(self):
        return self.n


def build_dataset(split):
    return Dials(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split == "train":
        return DataLoader(ds, batch_size=12, sampler=Reshuffle(len(ds)), drop_last=False)
    return DataLoader(ds, batch_size=12)


# ---------------------------------------------------------------- loss, metric
@TERMS.add("direction")
def direction_term(out, lab):
    a = lab["angle"]
    cos = out["direction"][:, 0] * a.cos() + out["direction"][:, 1] * a.sin()
    return ((1 - cos) * (0.5 + lab["span"])).mean()


@TERMS.add("kind")
def kind_term(out, lab):
    w = torch.tensor([0.7, 1.1, 1.6])
    return F.cross_entropy(out["kind"], lab["kind"], weight=w, label_smoothing=0.1)


@TERMS.add("span")
def span_term(out, lab):
    return F.smooth_l1_loss(out["span"], lab["span"], beta=0.2)


def loss(outputs, labels):
    parts = {k: f(outputs, labels) for k, f in TERMS.items()}
    s = outputs["temper"]
    total = sum(torch.exp(-s[i]) * parts[k] + 0.5 * s[i] for i, k in enumerate(parts))
    return {"loss": total, **parts}


@torch.no_grad()
def metric(outputs, labels):
    est = torch.atan2(outputs["direction"][:, 1], outputs["direction"][:, 0])
    diff = torch.rad2deg(torch.remainder(est - labels["angle"] + math.pi, 2 * math.pi) - math.pi)
    pick = outputs["kind"].argmax(-1)
    f1 = []
    for c in range(len(KINDS)):
        tp = ((pick == c) & (labels["kind"] == c)).sum().item()
        both = (pick == c).sum().item() + (labels["kind"] == c).sum().item()
        if both:
            f1.append(2.0 * tp / both)
    return {"angle_mae": diff.abs().mean().item(),
            "angle_median": float(np.median(diff.abs().numpy())),
            "angle_spread": diff.std().item(),
            "within_45": (diff.abs() <= 45).float().mean().item(),
            "kind_acc": (pick == labels["kind"]).float().mean().item(),
            "kind_f1": sum(f1) / len(f1),
            "span_rmse": F.mse_loss(outputs["span"], labels["span"]).sqrt().item()}


# ---------------------------------------------------------------- training
BASE_LR = 0.05


def build_optimizer(model):
    plain, decay, head = [], [], []
    for name, p in model.named_parameters():
        if p.ndim == 1:
            plain.append(p)
        elif name.startswith("heads."):
            head.append(p)
        else:
            decay.append(p)
    return torch.optim.SGD([{"params": decay, "weight_decay": 5e-3},
                            {"params": head, "weight_decay": 1e-3, "lr": 2 * BASE_LR},
                            {"params": plain, "weight_decay": 0.0}],
                           lr=BASE_LR, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    S = torch.optim.lr_scheduler
    return S.SequentialLR(optimizer, [S.LinearLR(optimizer, start_factor=0.2, total_iters=6),
                                      S.MultiStepLR(optimizer, milestones=[18, 36], gamma=0.3)], milestones=[6])


def train_step(model, optimizer, batch, chunk=6):
    """Two halves of the batch, one update."""
    model.train()
    image, labels = batch
    n = len(image)
    optimizer.zero_grad()
    seen = {}
    for at in range(0, n, chunk):
        part = {k: v[at:at + chunk] for k, v in labels.items()}
        share = len(part["angle"]) / n
        terms = loss(model(image[at:at + chunk]), part)
        (terms["loss"] * share).backward()
        for k, v in terms.items():
            seen[k] = seen.get(k, 0.0) + v.item() * share
    seen["norm"] = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    optimizer.step()
    return seen


# ---------------------------------------------------------------- inference
@torch.no_grad()
def predict(path, model):
    """The pointer is read in four quarter turns and the readings are averaged."""
    model.eval()
    mean, std = Dials.moments()
    img = (np.asarray(Image.open(path), dtype=np.float32) / 255.0 - mean) / std
    turned = np.stack([np.rot90(img, k) for k in range(4)])[:, None].astype(np.float32)
    out = model(torch.from_numpy(np.ascontiguousarray(turned)))
    ang = torch.atan2(out["direction"][:, 1], out["direction"][:, 0]) - torch.arange(4) * math.pi / 2
    mean_vec = torch.stack([ang.cos(), ang.sin()], 1).mean(0)
    degrees = math.degrees(math.atan2(mean_vec[1].item(), mean_vec[0].item()))
    prob = out["kind"].softmax(-1).mean(0)
    sweep = (225.0 - degrees) % 360.0
    return {"degrees": np.array([degrees], np.float32),
            "agreement": np.array([mean_vec.norm().item()], np.float32),
            "turns": torch.rad2deg(ang).numpy(),
            "prob": prob.numpy(),
            "kind": KINDS[int(prob.argmax())],
            "span": np.array([out["span"].mean().item()], np.float32),
            "fraction": np.array([min(sweep / 270.0, 1.0)], np.float32)}
