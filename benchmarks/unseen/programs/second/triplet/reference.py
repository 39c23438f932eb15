"""Re-identification: a small residual net with GeM pooling and a BN neck, batch-hard triplets."""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = 4


class IBN(nn.Module):
    """half instance norm, half batch norm"""

    def __init__(self, planes):
        super().__init__()
        self.half = planes // 2
        self.IN = nn.InstanceNorm2d(self.half, affine=True)
        self.BN = nn.BatchNorm2d(planes - self.half)

    def forward(self, x):
        a, b = torch.split(x, [self.half, x.size(1) - self.half], 1)
        return torch.cat((self.IN(a.contiguous()), self.BN(b.contiguous())), 1)


class BasicBlock(nn.Module):
    def __init__(self, inp, planes, stride=1, ibn=False):
        super().__init__()
        self.conv1 = nn.Conv2d(inp, planes, 3, stride, 1, bias=False)
        self.bn1 = IBN(planes) if ibn else nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inp != planes:
            self.downsample = nn.Sequential(nn.AvgPool2d(2, 2, ceil_mode=True), nn.Conv2d(inp, planes, 1, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class GeM(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.p, self.eps = nn.Parameter(torch.ones(1) * p), eps

    def forward(self, x):
        return F.adaptive_avg_pool2d(x.clamp(min=self.eps).pow(self.p), 1).pow(1.0 / self.p).flatten(1)


class ReID(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 5, 1, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.layer1 = BasicBlock(8, 8, ibn=True)
        self.layer2 = BasicBlock(8, 16, stride=2)
        self.pool = GeM()
        self.bottleneck = nn.BatchNorm1d(16)
        self.bottleneck.bias.requires_grad_(False)
        self.classifier = nn.Linear(16, IDS, bias=False)
        nn.init.normal_(self.classifier.weight, std=0.2)

    def forward(self, x):
        feat = self.pool(self.layer2(self.layer1(self.stem(x))))
        neck = self.bottleneck(feat)
        return feat, F.normalize(neck, dim=1), self.classifier(neck)


def build_model():
    model = ReID()
    model.train()
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(6, 3, 22, 14, generator=g))
    return model


def inputs():
    return np.random.default_rng(2).standard_normal((8, 3, 22, 14)).astype("float32")


def labels():
    return np.array([0, 0, 1, 1, 2, 2, 3, 3])


def euclidean(x, y):
    m, n = x.size(0), y.size(0)
    d = x.pow(2).sum(1, keepdim=True).expand(m, n) + y.pow(2).sum(1, keepdim=True).expand(n, m).t()
    d = torch.addmm(d, x, y.t(), beta=1, alpha=-2)
    return d.clamp(min=1e-12).sqrt()


def batch_hard(dist, labels):
    n = dist.size(0)
    is_pos = labels.expand(n, n).eq(labels.expand(n, n).t())
    is_neg = ~is_pos
    ap = torch.max(dist.masked_fill(is_neg, float("-inf")), 1)[0]
    an = torch.min(dist.masked_fill(is_pos, float("inf")), 1)[0]
    return ap, an


def loss(outputs, labels):
    feat, _, logits = outputs
    ap, an = batch_hard(euclidean(feat, feat), labels)
    tri = F.margin_ranking_loss(an, ap, torch.ones_like(an), margin=0.3)
    ce = F.cross_entropy(logits, labels, label_smoothing=0.1)
    return {"loss": ce + tri, "triplet": tri, "id": ce}


def metric(outputs, labels):
    e = outputs[1]
    sim = e @ e.t()
    sim.fill_diagonal_(-2)
    order = sim.argsort(1, descending=True)[:, :-1]
    match = (labels[order] == labels[:, None]).float()
    prec = match.cumsum(1) / torch.arange(1, match.size(1) + 1)
    ap = (prec * match).sum(1) / match.sum(1).clamp(min=1)
    return {"rank1": match[:, 0].mean().item(), "mAP": ap.mean().item()}


class Crops(Dataset):
    def __init__(self, split):
        self.dir = os.path.join(HERE, "crops", split)
        self.names = sorted(n for n in os.listdir(self.dir) if n.endswith(".png"))
        self.transform = transforms(split)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        x = Image.open(os.path.join(self.dir, self.names[i]))
        for t in self.transform:
            x = t(x)
        return x, int(self.names[i][1])


def to_rgb(im):
    return im.convert("RGB")


def resize(im):
    return im.resize((14, 22), Image.BICUBIC)


def to_tensor(im):
    return torch.from_numpy(np.asarray(im).transpose(2, 0, 1).copy()).float() / 255


def normalize(x):
    return (x - 0.5) / 0.5


def transforms(split):
    return [to_rgb, resize, to_tensor, normalize]


def build_dataset(split):
    return Crops(split)


def build_dataloader(split):
    return DataLoader(Crops(split), batch_size=4)


def build_optimizer(model):
    groups = []
    for key, value in model.named_parameters():
        if not value.requires_grad:
            continue
        lr, wd = 0.02, 5e-4
        if "bias" in key:
            lr, wd = 0.04, 0.0
        groups.append({"params": [value], "lr": lr, "weight_decay": wd})
    return torch.optim.SGD(groups, lr=0.02, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.1)


@torch.no_grad()
def predict(path, model):
    x = Image.open(path)
    for t in transforms("val"):
        x = t(x)
    x = x[None].to(next(model.parameters()).dtype)
    e = model(x)[1] + model(x.flip(3))[1]
    return F.normalize(e, dim=1)
