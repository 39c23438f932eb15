"""Dynamic-graph PointNet for small scans (PyTorch)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 4
NUM_POINTS = 48
K = 8


# ------------------------------------------------------------------ data

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


class FarthestPoints:
    """farthest point sampling that starts at point 0"""

    def __init__(self, n):
        self.n = n

    def __call__(self, xyz):
        chosen = [0]
        dist = ((xyz - xyz[0]) ** 2).sum(1)
        while len(chosen) < self.n:
            nxt = int(dist.argmax())
            chosen.append(nxt)
            dist = np.minimum(dist, ((xyz - xyz[nxt]) ** 2).sum(1))
        return xyz[chosen]


class UnitSphere:
    def __call__(self, xyz):
        xyz = xyz - xyz.mean(axis=0, keepdims=True)
        return xyz / np.sqrt((xyz ** 2).sum(axis=1)).max()


class RotateZ:
    def __init__(self, degrees):
        a = math.radians(degrees)
        self.m = np.array([[math.cos(a), -math.sin(a), 0.0], [math.sin(a), math.cos(a), 0.0], [0.0, 0.0, 1.0]])

    def __call__(self, xyz):
        return xyz @ self.m.T


class ToTensor:
    def __call__(self, xyz):
        return torch.from_numpy(np.ascontiguousarray(xyz, dtype=np.float32))


def transforms(split):
    steps = [FarthestPoints(NUM_POINTS), UnitSphere()]
    if split == "train":
        steps.append(RotateZ(30))
    return Compose(steps + [ToTensor()])


class Clouds(Dataset):
    def __init__(self, split, path="clouds.npz"):
        with np.load(path) as f:
            keep = f["fold"] == (1 if split == "val" else 0)
            self.xyz, self.y = f["xyz"][keep].astype(np.float64), f["y"][keep]
        self.transform = transforms(split)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.transform(self.xyz[i]), int(self.y[i])


def build_dataset(split):
    return Clouds(split)


def build_dataloader(split):
    return DataLoader(Clouds(split), batch_size=4, shuffle=False, drop_last=split == "train")


# ------------------------------------------------------------------ model

class TNet(nn.Module):
    def __init__(self, k, width=32):
        super().__init__()
        self.k = k
        self.conv1 = nn.Conv1d(k, width, 1)
        self.conv2 = nn.Conv1d(width, 2 * width, 1)
        self.fc1 = nn.Linear(2 * width, width)
        self.fc2 = nn.Linear(width, k * k)
        self.bn1 = nn.BatchNorm1d(width)
        self.bn2 = nn.BatchNorm1d(2 * width)
        self.register_buffer("eye", torch.eye(k).view(1, k * k), persistent=False)
        nn.init.normal_(self.fc2.weight, std=0.02)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2)[0]
        x = F.relu(self.fc1(x))
        x = self.fc2(x) + self.eye
        return x.view(-1, self.k, self.k)


def knn(x, k):
    """x: [B, C, N] -> indices of the k nearest other points [B, N, k]"""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x ** 2, dim=1, keepdim=True)
    pairwise = -xx - inner - xx.transpose(2, 1)
    return pairwise.topk(k=k + 1, dim=-1)[1][:, :, 1:]


def graph_feature(x, k):
    b, c, n = x.size()
    idx = knn(x.detach(), k)
    idx = (idx + torch.arange(b).view(-1, 1, 1) * n).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(b * n, -1)[idx, :].view(b, n, k, c)
    x = x.view(b, n, 1, c).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.net = nn.Sequential(nn.Conv2d(2 * cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))

    def forward(self, x):
        return self.net(graph_feature(x, self.k)).max(dim=-1)[0]


class PointGraphNet(nn.Module):
    def __init__(self, classes=NUM_CLASSES, k=K, dropout=0.3):
        super().__init__()
        self.stn = TNet(3)
        self.edge1 = EdgeConv(3, 24, k)
        self.fstn = TNet(24)
        self.edge2 = EdgeConv(24, 32, k)
        self.fuse = nn.Sequential(nn.Conv1d(56, 64, 1, bias=False), nn.BatchNorm1d(64), nn.LeakyReLU(0.2))
        self.head = nn.Sequential(
            nn.Linear(128, 32, bias=False), nn.LayerNorm(32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, classes))

    def forward(self, xyz):
        x = xyz.transpose(2, 1)
        t = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), t).transpose(2, 1)
        a = self.edge1(x)
        tf = self.fstn(a)
        a = torch.bmm(a.transpose(2, 1), tf).transpose(2, 1)
        b = self.edge2(a)
        f = self.fuse(torch.cat((a, b), dim=1))
        g = torch.cat((F.adaptive_max_pool1d(f, 1).squeeze(-1), F.adaptive_avg_pool1d(f, 1).squeeze(-1)), 1)
        return self.head(g), tf


def build_model():
    return PointGraphNet()


# ------------------------------------------------------------------ training

def orthogonality(t):
    d = t.size(1)
    i = torch.eye(d, dtype=t.dtype)[None]
    return torch.mean(torch.norm(torch.bmm(t, t.transpose(2, 1)) - i, dim=(1, 2)))


def loss(outputs, labels):
    logits, tf = outputs
    return F.cross_entropy(logits, labels, label_smoothing=0.2) + 0.01 * orthogonality(tf)


def metric(outputs, labels):
    pred = outputs[0].argmax(dim=1).numpy()
    y = labels.numpy()
    per_class = [float((pred[y == c] == c).mean()) for c in np.unique(y)]
    top2 = outputs[0].topk(2, dim=1)[1].eq(labels[:, None]).any(1).float().mean().item()
    return {"oa": float((pred == y).mean()), "macc": float(np.mean(per_class)), "top2": top2}


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=2e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)


# ------------------------------------------------------------------ inference

@torch.no_grad()
def predict(path, model):
    xyz = np.loadtxt(path)
    cloud = transforms("val")(xyz)[None].to(next(model.parameters()).dtype)
    logits, _ = model(cloud)
    p = F.softmax(logits, dim=1)[0]
    return {"class": int(p.argmax()), "prob": p.numpy(), "entropy": float(-(p * p.log()).sum())}
