"""FCOS-like detector: small backbone, FPN, shared head."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDES = (8, 16, 32)
RANGES = ((-1, 18), (18, 32), (32, 1e8))
CLASSES = 10


def conv_gn(cin, cout, stride=1):
    conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.GroupNorm(4, cout), nn.ReLU(inplace=True))


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.a = conv_gn(cin, cout, 2)
        self.b = conv_gn(cout, cout)
        self.short = nn.Conv2d(cin, cout, 1)

    def forward(self, x):
        return self.b(self.a(x)) + self.short(F.avg_pool2d(x, 3, 2, 1))


class FPN(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, out, 1) for c in channels)
        self.smooth = nn.ModuleList(nn.Conv2d(out, out, 3, padding=1) for _ in channels)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_uniform_(m.weight, a=1)
                nn.init.zeros_(m.bias)

    def forward(self, feats):
        x = None
        outs = []
        for lat, smooth, f in reversed(list(zip(self.lateral, self.smooth, feats))):
            y = lat(f)
            x = y if x is None else y + F.interpolate(x, scale_factor=2, mode="nearest")
            outs.append(smooth(x))
        return outs[::-1]


class Head(nn.Module):
    def __init__(self, c, prior=0.05):
        super().__init__()
        self.cls_tower, self.reg_tower = conv_gn(c, c), conv_gn(c, c)
        self.cls = nn.Conv2d(c, CLASSES, 3, padding=1)
        self.reg = nn.Conv2d(c, 4, 3, padding=1)
        self.ctr = nn.Conv2d(c, 1, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(len(STRIDES)))
        for m in (self.cls, self.reg, self.ctr):
            nn.init.normal_(m.weight, std=0.03)
            nn.init.zeros_(m.bias)
        nn.init.constant_(self.cls.bias, -math.log((1 - prior) / prior))

    def forward(self, feats):
        cls, reg, ctr = [], [], []
        for i, f in enumerate(feats):
            a, b = self.cls_tower(f), self.reg_tower(f)
            cls.append(self.cls(a).flatten(2).transpose(1, 2))
            reg.append((torch.exp(self.scale[i] * self.reg(b)) * STRIDES[i]).flatten(2).transpose(1, 2))
            ctr.append(self.ctr(b).flatten(1))
        return torch.cat(cls, 1), torch.cat(reg, 1), torch.cat(ctr, 1)


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        w = width
        self.stem = nn.Sequential(conv_gn(1, w, 2), nn.MaxPool2d(3, 2, 1))
        self.c3, self.c4, self.c5 = Block(w, 2 * w), Block(2 * w, 3 * w), Block(3 * w, 4 * w)
        self.fpn = FPN((2 * w, 3 * w, 4 * w), 2 * w)
        self.head = Head(2 * w)

    def forward(self, image):
        c3 = self.c3(self.stem(image))
        c4 = self.c4(c3)
        cls, reg, ctr = self.head(self.fpn((c3, c4, self.c5(c4))))
        return {"cls": cls, "reg": reg, "ctr": ctr}


def locations(size=96, dtype=torch.float32):
    """Centres (x, y) of all cells, level after level, and their levels."""
    points, level = [], []
    for i, s in enumerate(STRIDES):
        c = torch.arange(size // s, dtype=dtype) * s + s // 2
        y, x = torch.meshgrid(c, c, indexing="ij")
        points.append(torch.stack([x.flatten(), y.flatten()], 1))
        level += [i] * len(points[-1])
    return torch.cat(points), torch.tensor(level)
