"""Five landmarks on insect wings: heat maps, soft-argmax and a visibility head (PyTorch)."""
import csv
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

DATA = Path(__file__).resolve().parent.parent / "data"
SIZE = 32
GRID = 16
NAMES = ["hinge", "costa", "stigma", "apex", "anal"]
EPOCHS = 8
STEPS = 12


class Registry:
    def __init__(self):
        self.table = {}

    def register(self, name):
        def keep(thing):
            self.table[name] = thing
            return thing
        return keep

    def build(self, name, *args, **kwargs):
        return self.table[name](*args, **kwargs)


LAYERS = Registry()
TERMS = Registry()
SCORES = Registry()


# ---------------------------------------------------------------- layers
@LAYERS.register("gate")
class Gate(nn.Module):
    def __init__(self, width, ratio=4):
        super().__init__()
        self.squeeze = nn.Conv2d(width, width // ratio, 1)
        self.excite = nn.Conv2d(width // ratio, width, 1)

    def forward(self, x):
        s = x.mean(dim=(2, 3), keepdim=True)
        return x * F.hardsigmoid(self.excite(F.relu(self.squeeze(s))))


@LAYERS.register("inverted")
class Inverted(nn.Module):
    def __init__(self, width, expand, dilation):
        super().__init__()
        mid = width * expand
        self.widen = nn.Conv2d(width, mid, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, mid)
        self.depth = nn.Conv2d(mid, mid, 3, padding=dilation, dilation=dilation, groups=mid, bias=False)
        self.norm2 = nn.GroupNorm(4, mid)
        self.gate = LAYERS.build("gate", mid)
        self.narrow = nn.Conv2d(mid, width, 1, bias=False)

    def forward(self, x):
        y = F.silu(self.norm1(self.widen(x)))
        y = F.silu(self.norm2(self.depth(y)))
        return x + self.narrow(self.gate(y))


@LAYERS.register("stem")
class Stem(nn.Module):
    def __init__(self, mid, out):
        super().__init__()
        self.conv1 = nn.Conv2d(1, mid, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(3, mid)
        self.act = nn.PReLU(mid)
        self.conv2 = nn.Conv2d(mid, out, 3, stride=2, padding=1)

    def forward(self, x):
        return self.conv2(self.act(self.norm(self.conv1(x))))


class WingNet(nn.Module):
    def __init__(self, width=16, points=5):
        super().__init__()
        self.stem = LAYERS.build("stem", 12, width)
        self.fine = nn.ModuleList([LAYERS.build("inverted", width, 2, d) for d in (1, 2)])
        self.pool = nn.AvgPool2d(3, stride=2, padding=1)
        self.coarse = LAYERS.build("inverted", width, 2, 1)
        self.heat = nn.Conv2d(width, points, 1, bias=False)
        self.vis1 = nn.Linear(2 * width, 16)
        self.vis2 = nn.Linear(16, points)
        self.sharp = nn.Parameter(torch.full((points,), math.log(2.0)))
        centres = (torch.arange(GRID, dtype=torch.float32) + 0.5) / GRID
        self.register_buffer("centres", centres, persistent=False)
        self.reset()

    def reset(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight, gain=nn.init.calculate_gain("leaky_relu", 0.1))
                nn.init.zeros_(m.bias)
        nn.init.normal_(self.heat.weight, std=0.05)
        nn.init.constant_(self.vis2.bias, math.log(0.8 / 0.2))
        for block in list(self.fine) + [self.coarse]:
            nn.init.constant_(block.norm2.weight, 0.5)

    def forward(self, image):
        x = self.stem(image)
        for block in self.fine:
            x = block(x)
        low = self.coarse(self.pool(x))
        x = x + F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
        logits = self.heat(x) * self.sharp.exp().view(1, -1, 1, 1)
        p = logits.flatten(2).softmax(-1).view_as(logits)
        px = (p.sum(2) * self.centres).sum(-1)
        py = (p.sum(3) * self.centres).sum(-1)
        pooled = torch.cat([low.mean((2, 3)), low.amax((2, 3))], dim=1)
        vis = self.vis2(F.leaky_relu(self.vis1(pooled), 0.1))
        return {"logits": logits, "xy": torch.stack([px, py], -1), "vis": vis}


def build_model():
    return WingNet()


# ---------------------------------------------------------------- data
def stretch(tile):
    lo, hi = np.percentile(tile, [2, 98])
    return np.clip((tile - lo) / max(hi - lo, 1e-3), 0.0, 1.0)


def standardise(tile):
    stats = json.loads((DATA / "stats.json").read_text())
    return ((tile - stats["mean"]) / stats["std"]).astype(np.float32)


class Wings(Dataset):
    def __init__(self, split):
        self.split = split
        self.sheet = np.asarray(Image.open(DATA / f"{split}.png"), dtype=np.float64) / 255.0
        with open(DATA / "marks.csv", newline="") as f:
            self.rows = [r for r in csv.DictReader(f) if r["split"] == split]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        top, left = int(row["row"]) * SIZE, int(row["col"]) * SIZE
        tile = self.sheet[top:top + SIZE, left:left + SIZE]
        xy = np.zeros((5, 2))
        vis = np.zeros(5)
        for k in range(5):
            if row[f"x{k}"]:
                xy[k] = float(row[f"x{k}"]), float(row[f"y{k}"])
                vis[k] = 1
        if row["side"] == "L":
            tile = tile[:, ::-1]
            xy[:, 0] = SIZE - 1 - xy[:, 0]
        tile = stretch(tile)
        if self.split == "train":
            rng = np.random.default_rng([77, i])
            tile = tile ** np.exp(rng.uniform(-0.3, 0.3))
            dx, dy = rng.integers(-3, 4, size=2)
            wide = np.pad(tile, 3, mode="edge")
            tile = wide[3 - dy:3 - dy + SIZE, 3 - dx:3 - dx + SIZE]
            xy = xy + np.array([dx, dy])
        xy = (xy + 0.5) / SIZE
        inside = ((xy > 0) & (xy < 1)).all(1)
        vis = vis * inside
        xy = xy * vis[:, None]
        labels = {
            "xy": torch.tensor(xy, dtype=torch.float32),
            "vis": torch.tensor(vis, dtype=torch.float32),
            "span": torch.tensor(float(row["span"]) / SIZE, dtype=torch.float32),
        }
        return torch.from_numpy(standardise(tile)[None].copy()), labels


class Shuffled(Sampler):
    """Another order each time that it is walked through."""

    def __init__(self, n):
        self.n = n
        self.round = 0

    def __len__(self):
        return self.n

    def __iter__(self):
        order = np.random.RandomState(400 + self.round).permutation(self.n)
        self.round += 1
        return iter(order.tolist())


def build_dataset(split):
    return Wings(split)


def build_dataloader(split):
    data = build_dataset(split)
    if split == "train":
        return DataLoader(data, batch_size=6, sampler=Shuffled(len(data)), drop_last=True)
    return DataLoader(data, batch_size=10, shuffle=False)


# ---------------------------------------------------------------- loss
IMPORTANCE = torch.tensor([1.0, 1.0, 1.5, 1.0, 0.75])


@TERMS.register("heat")
def heat_term(out, lab):
    centres = (torch.arange(GRID, dtype=torch.float32) + 0.5) / GRID
    gx = torch.exp(-0.5 * ((centres - lab["xy"][..., :1]) / 0.06) ** 2)
    gy = torch.exp(-0.5 * ((centres - lab["xy"][..., 1:]) / 0.06) ** 2)
    target = torch.einsum("bky,bkx->bkyx", gy, gx).flatten(2)
    target = target / target.sum(-1, keepdim=True).clamp_min(1e-6)
    logp = F.log_softmax(out["logits"].flatten(2), dim=-1)
    kl = F.kl_div(logp, target, reduction="none").sum(-1)
    w = lab["vis"] * IMPORTANCE
    return (kl * w).sum() / w.sum().clamp_min(1.0)


@TERMS.register("coord")
def coord_term(out, lab):
    d = F.smooth_l1_loss(out["xy"], lab["xy"], beta=0.05, reduction="none").sum(-1)
    w = lab["vis"] * IMPORTANCE
    return (d * w).sum() / w.sum().clamp_min(1.0)


@TERMS.register("vis")
def vis_term(out, lab):
    return F.binary_cross_entropy_with_logits(out["vis"], lab["vis"], pos_weight=torch.tensor(0.6))


WEIGHTS = {"heat": 1.0, "coord": 4.0, "vis": 0.5}


def loss(outputs, labels):
    parts = {name: TERMS.build(name, outputs, labels) for name in WEIGHTS}
    parts["loss"] = sum(WEIGHTS[name] * parts[name] for name in WEIGHTS)
    return parts


# ---------------------------------------------------------------- metric
@SCORES.register("nme")
def nme(out, lab):
    d = (out["xy"] - lab["xy"]).norm(dim=-1) / lab["span"][:, None]
    per = (d * lab["vis"]).sum(1) / lab["vis"].sum(1).clamp_min(1)
    return {"nme": per.mean().item(), "nme_p90": torch.quantile(per, 0.9).item()}


@SCORES.register("pck")
def pck(out, lab):
    d = (out["xy"] - lab["xy"]).norm(dim=-1) / lab["span"][:, None]
    seen = lab["vis"] > 0
    return {f"pck{int(100 * t)}": (d[seen] <= t).float().mean().item() for t in (0.1, 0.2, 0.3)}


@SCORES.register("visible")
def visible(out, lab):
    yes = torch.sigmoid(out["vis"]) > 0.7
    no_true = lab["vis"] < 0.5
    tp = (~yes & no_true).sum().item()
    fp = (~yes & ~no_true).sum().item()
    fn = (yes & no_true).sum().item()
    return {"hidden_f1": 2 * tp / max(2 * tp + fp + fn, 1),
            "brier": ((torch.sigmoid(out["vis"]) - lab["vis"]) ** 2).mean().item()}


def metric(outputs, labels):
    found = {}
    with torch.no_grad():
        for name in ("nme", "pck", "visible"):
            found.update(SCORES.build(name, outputs, labels))
    return found


# ---------------------------------------------------------------- training
def build_optimizer(model):
    body, plain, head = [], [], []
    for name, p in model.named_parameters():
        if name.startswith(("vis", "heat")):
            head.append(p)
        elif p.ndim <= 1:
            plain.append(p)
        else:
            body.append(p)
    return torch.optim.AdamW(
        [{"params": body, "weight_decay": 0.05},
         {"params": plain, "weight_decay": 0.0},
         {"params": head, "weight_decay": 0.02, "lr": 6e-3}],
        lr=3e-3, betas=(0.9, 0.98), eps=1e-7)


def build_scheduler(optimizer):
    warm = 10
    up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=warm)
    down = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * STEPS - warm)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [up, down], milestones=[warm])


def train_step(model, optimizer, batch):
    model.train()
    image, labels = batch
    optimizer.zero_grad(set_to_none=True)
    parts = loss(model(image), labels)
    parts["loss"].backward()
    stem = nn.utils.clip_grad_norm_(model.stem.parameters(), 0.5)
    rest = nn.utils.clip_grad_norm_([p for n, p in model.named_parameters() if not n.startswith("stem")], 2.0)
    optimizer.step()
    with torch.no_grad():
        model.sharp.clamp_(max=math.log(8.0))
    return {"loss": parts["loss"].item(), "coord": parts["coord"].item(),
            "stem_norm": float(stem), "rest_norm": float(rest)}


# ---------------------------------------------------------------- inference
def predict(path, model):
    path = Path(path)
    note = json.loads(path.read_text())
    picture = Image.open(path.parent / note["image"])
    width, height = picture.size
    tile = np.asarray(picture.resize((SIZE, SIZE), Image.BILINEAR), dtype=np.float64) / 255.0
    if note["side"] == "L":
        tile = tile[:, ::-1]
    tile = stretch(tile)
    wide = np.pad(tile, 2, mode="edge")
    views = [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)]
    stack = np.stack([wide[2 - dy:2 - dy + SIZE, 2 - dx:2 - dx + SIZE] for dx, dy in views])
    was = model.training
    model.eval()
    with torch.no_grad():
        out = model(torch.from_numpy(standardise(stack)[:, None]))
    model.train(was)
    xy = out["xy"].numpy().astype(np.float64) - np.array(views)[:, None, :] / SIZE
    xy = np.median(xy, axis=0)
    prob = torch.sigmoid(out["vis"]).mean(0).numpy()
    if note["side"] == "L":
        xy[:, 0] = 1 - xy[:, 0]
    pixels = xy * np.array([width, height]) - 0.5
    return {"pixels": pixels, "visible": prob,
            "names": [n for n, p in zip(NAMES, prob) if p > 0.7],
            "spread": out["xy"].numpy().std(0)}
