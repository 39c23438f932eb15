"""Knowledge distillation (Hinton et al. 2015) of a motion classifier into a
small squeeze-and-excitation network. PyTorch."""
import copy
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

DATA = Path(__file__).resolve().parents[1] / "data"
CLASSES = ["still", "walk", "stairs", "run", "jump"]
TEMPERATURE, ALPHA, SMOOTHING = 3.0, 0.6, 0.1
BASE_LR, WARMUP, TOTAL = 0.08, 10, 112
EMA_DECAY, MAX_NORM, WEIGHT_DECAY = 0.95, 2.0, 5e-4


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, 24, 5, padding=2), nn.GroupNorm(4, 24), nn.ReLU(),
            nn.Conv1d(24, 32, 3, padding=2, dilation=2), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, len(CLASSES)))

    def forward(self, x):
        return self.net(x)


class SqueezeExcite(nn.Module):
    def __init__(self, ch, reduction=4):
        super().__init__()
        self.fc1 = nn.Conv1d(ch, ch // reduction, 1)
        self.fc2 = nn.Conv1d(ch // reduction, ch, 1)

    def forward(self, x):
        s = x.mean(-1, keepdim=True)
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(s))))


class SEBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.depthwise = nn.Conv1d(cin, cin, 3, stride=stride, padding=1, groups=cin, bias=False)
        self.bn1 = nn.BatchNorm1d(cin)
        self.se = SqueezeExcite(cin)
        self.pointwise = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        h = self.se(F.silu(self.bn1(self.depthwise(x))))
        h = self.bn2(self.pointwise(h))
        return h + x if self.residual else h


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm1d(8)
        self.blocks = nn.Sequential(SEBlock(8, 16, 2), SEBlock(16, 16, 1), SEBlock(16, 16, 1))
        self.head = nn.Linear(16, len(CLASSES))
        for m in self.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.05)
                nn.init.zeros_(m.bias)
        for m in self.blocks:
            if m.residual:
                nn.init.zeros_(m.bn2.weight)

    def forward(self, x):
        h = F.silu(self.bn(self.stem(x)))
        return self.head(self.blocks(h).mean(-1))


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = Student()
        self.teacher = Teacher()
        with np.load(DATA / "teacher.npz") as z:
            self.teacher.load_state_dict({k: torch.from_numpy(z[k]) for k in z.files})
        self.teacher.requires_grad_(False)
        self.ema = copy.deepcopy(self.student).requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        self.ema.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            soft = self.teacher(x)
        return {"logits": self.student(x), "teacher": soft}

    @torch.no_grad()
    def update_ema(self):
        for e, s in zip(self.ema.state_dict().values(), self.student.state_dict().values()):
            if e.dtype.is_floating_point:
                e.mul_(EMA_DECAY).add_(s, alpha=1 - EMA_DECAY)
            else:
                e.copy_(s)


class Windows(Dataset):
    def __init__(self, split):
        z = np.load(DATA / "windows.npz")
        train = z["subject"] == 1
        self.mean = z["signal"][train].mean((0, 2), keepdims=True)[0]
        self.std = z["signal"][train].std((0, 2), keepdims=True)[0]
        keep = train if split == "train" else ~train
        self.x, self.y = z["signal"][keep], z["activity"][keep]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return ((self.x[i] - self.mean) / self.std).astype(np.float32), self.y[i]


def build_model():
    return Distiller()


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    ds = Windows(split)
    if split == "train":
        freq = np.bincount(ds.y, minlength=len(CLASSES))
        sampler = WeightedRandomSampler((1.0 / freq)[ds.y].tolist(), num_samples=len(ds), replacement=True)
        return DataLoader(ds, batch_size=8, sampler=sampler)
    return DataLoader(ds, batch_size=16)


def loss(outputs, labels):
    hard = F.cross_entropy(outputs["logits"], labels, label_smoothing=SMOOTHING)
    t = TEMPERATURE
    soft = F.kl_div(F.log_softmax(outputs["logits"] / t, 1), F.softmax(outputs["teacher"] / t, 1),
                    reduction="batchmean") * t * t
    return {"loss": (1 - ALPHA) * hard + ALPHA * soft, "hard": hard, "soft": soft}


def metric(outputs, labels):
    pred = outputs["logits"].argmax(1)
    agree = (pred == outputs["teacher"].argmax(1)).float().mean()
    f1 = []
    for c in range(len(CLASSES)):
        tp = ((pred == c) & (labels == c)).sum().item()
        total = (pred == c).sum().item() + (labels == c).sum().item()
        f1.append(2 * tp / total if total else 0.0)
    return {"macro_f1": sum(f1) / len(f1), "agreement": agree.item()}


def build_optimizer(model):
    decay, plain = [], []
    for p in model.parameters():
        if p.requires_grad:
            (plain if p.ndim == 1 else decay).append(p)
    groups = [{"params": decay, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=BASE_LR, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=WARMUP)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=TOTAL - WARMUP, eta_min=1e-4)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cos], milestones=[WARMUP])


def train_step(model, optimizer, batch):
    x, y = batch
    model.train()
    optimizer.zero_grad()
    parts = loss(model(x), y)
    parts["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.student.parameters(), MAX_NORM)
    optimizer.step()
    model.update_ema()
    return {**{k: v.item() for k, v in parts.items()}, "grad_norm": norm.item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    d = json.loads(Path(path).read_text())
    ds = Windows("val")
    x = np.stack([d["x"], d["y"], d["z"]]).astype(np.float32)
    x = torch.from_numpy((x - ds.mean) / ds.std)[None]
    prob = F.softmax(model.ema(x), 1)[0]
    return {"probability": prob.numpy(), "activity": CLASSES[int(prob.argmax())]}
