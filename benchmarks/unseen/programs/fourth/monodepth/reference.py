"""Monocular depth, small version: residual encoder, dilated context, U-shaped decoder, SILog loss.

Depths are in metres; zeros in the sensor's map are holes.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

opt = argparse.Namespace(
    archive="scenes.npz",
    size=(32, 40),
    min_depth=0.3,
    max_depth=10.0,
    widths=[12, 16, 24, 32],
    rates=[1, 2, 3],
    lambd=0.85,
    aux_weight=0.4,
    grad_weight=0.2,
    lr=0.02,
    backbone_lr=0.1,
    momentum=0.9,
    wd=5e-4,
    power=0.9,
    max_iter=60,
    batch_size=3,
)

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


# ---------------------------------------------------------------- data

class CenterCrop:
    def __init__(self, size):
        self.h, self.w = size

    def __call__(self, s):
        H, W = s["image"].shape[:2]
        top = int(round((H - self.h) / 2.0))
        left = int(round((W - self.w) / 2.0))
        for k in ("image", "depth"):
            s[k] = s[k][top:top + self.h, left:left + self.w]
        return s


class MaybeFlip:
    """The list says which images are mirrored, so that runs can be repeated."""

    def __call__(self, s):
        if s.pop("flip"):
            s["image"] = s["image"][:, ::-1]
            s["depth"] = s["depth"][:, ::-1]
        return s


class Jitter:
    """gamma of the list, on [0, 1]"""

    def __call__(self, s):
        g = s.pop("gamma")
        s["image"] = (s["image"].astype(np.float32) / 255.0) ** np.float32(g)
        return s


class ToTensor:
    def __call__(self, s):
        img = torch.from_numpy(np.ascontiguousarray(s["image"].transpose(2, 0, 1)))
        mean = torch.tensor(MEAN).view(3, 1, 1)
        std = torch.tensor(STD).view(3, 1, 1)
        depth = torch.from_numpy(np.ascontiguousarray(s["depth"]).astype(np.float32) / 1000.0)
        return {"image": (img - mean) / std, "depth": depth[None]}


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for t in self.transforms:
            x = t(x)
        return x


class DepthSet(Dataset):
    def __init__(self, split):
        arrays = np.load(opt.archive)
        self.rgb, self.depth = arrays["rgb"], arrays["depth"]
        self.rows = [line.split() for line in open(split + ".txt")]
        self.transform = transforms(split)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        idx, flip, gamma = self.rows[i]
        idx = int(idx)
        s = {"image": self.rgb[idx], "depth": self.depth[idx], "flip": flip == "flip", "gamma": float(gamma)}
        return self.transform(s)


def transforms(split):
    return Compose([CenterCrop(opt.size), MaybeFlip(), Jitter(), ToTensor()])


def collate(samples):
    return [torch.stack([s["image"] for s in samples]), torch.stack([s["depth"] for s in samples])]


def build_dataset(split):
    return DepthSet(split)


def build_dataloader(split):
    return DataLoader(DepthSet(split), batch_size=opt.batch_size, collate_fn=collate, drop_last=split == "train")


# ---------------------------------------------------------------- network

class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.down = None
        if stride > 1 or cin != cout:
            self.down = nn.Sequential(nn.AvgPool2d(3, stride, 1), nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class Encoder(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 5, padding=2, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(True))
        self.layer1 = BasicBlock(widths[0], widths[1], 2)
        self.layer2 = BasicBlock(widths[1], widths[2], 2)
        self.layer3 = BasicBlock(widths[2], widths[3], 2)

    def forward(self, x):
        x0 = self.stem(x)
        x1 = self.layer1(x0)
        x2 = self.layer2(x1)
        x3 = self.layer3(x2)
        return x0, x1, x2, x3


class Context(nn.Module):
    """dilated branches and the image's mean, brought together"""

    def __init__(self, ch, rates):
        super().__init__()
        self.branches = nn.ModuleList([nn.Conv2d(ch, ch // 2, 3, padding=r, dilation=r) for r in rates])
        self.glob = nn.Conv2d(ch, ch // 2, 1)
        self.mix = nn.Conv2d(ch // 2 * (len(rates) + 1), ch, 1)

    def forward(self, x):
        ys = [F.leaky_relu(b(x), 0.1) for b in self.branches]
        g = F.leaky_relu(self.glob(x.mean((2, 3), keepdim=True)), 0.1)
        ys.append(g.expand(-1, -1, x.shape[2], x.shape[3]))
        return x + self.mix(torch.cat(ys, 1))


class UpBlock(nn.Module):
    def __init__(self, cin, skip, cout):
        super().__init__()
        self.convA = nn.Conv2d(cin + skip, cout, 3, 1, 1)
        self.actA = nn.LeakyReLU(0.2)
        self.convB = nn.Conv2d(cout, cout, 3, 1, 1)
        self.actB = nn.LeakyReLU(0.2)

    def forward(self, x, skip):
        up = F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=True)
        x = self.actA(self.convA(torch.cat([up, skip], 1)))
        return self.actB(self.convB(x))


class Head(nn.Module):
    """sigmoid -> inverse depth between 1 / max and 1 / min -> depth"""

    def __init__(self, ch):
        super().__init__()
        self.conv = nn.Conv2d(ch, 1, 3, padding=1)
        self.lo = 1.0 / opt.max_depth
        self.hi = 1.0 / opt.min_depth

    def forward(self, x):
        s = torch.sigmoid(self.conv(x))
        return 1.0 / (self.lo + (self.hi - self.lo) * s)


class DepthNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        w = widths
        self.encoder = Encoder(w)
        self.context = Context(w[3], opt.rates)
        self.up2 = UpBlock(w[3], w[2], w[2])
        self.up1 = UpBlock(w[2], w[1], w[1])
        self.up0 = UpBlock(w[1], w[0], w[0])
        self.head = Head(w[0])
        self.aux = Head(w[1])
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, a=0.2)
                if m.bias is not None:
                    nn.init.uniform_(m.bias, -0.1, 0.1)

    def forward(self, image):
        x0, x1, x2, x3 = self.encoder(image)
        y = self.up2(self.context(x3), x2)
        y1 = self.up1(y, x1)
        y0 = self.up0(y1, x0)
        aux = F.interpolate(self.aux(y1), scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(y0), aux


def build_model():
    return DepthNet(opt.widths)


# ---------------------------------------------------------------- loss and metric

def valid_mask(gt):
    return (gt > 1e-3) & (gt < opt.max_depth)


def silog(pred, gt, mask):
    d = torch.log(pred[mask]) - torch.log(gt[mask])
    return torch.sqrt((d ** 2).mean() - opt.lambd * d.mean() ** 2) * 10.0


def grad_match(pred, gt, mask):
    """L1 of the gradients of the log difference, where both neighbours are valid"""
    d = torch.where(mask, torch.log(pred) - torch.log(gt.clamp(min=1e-3)), torch.zeros_like(pred))
    mx = mask[..., :, 1:] & mask[..., :, :-1]
    my = mask[..., 1:, :] & mask[..., :-1, :]
    gx = (d[..., :, 1:] - d[..., :, :-1]).abs()[mx]
    gy = (d[..., 1:, :] - d[..., :-1, :]).abs()[my]
    return gx.mean() + gy.mean()


def loss(outputs, labels):
    depth, aux = outputs
    mask = valid_mask(labels)
    main = silog(depth, labels, mask)
    side = silog(aux, labels, mask)
    edges = grad_match(depth, labels, mask)
    return main + opt.aux_weight * side + opt.grad_weight * edges


def metric(outputs, labels):
    """Mean over images of each image's errors, inside the evaluation crop."""
    depth = outputs[0].detach().cpu().numpy().astype(np.float64)
    gt = labels.cpu().numpy().astype(np.float64)
    h, w = gt.shape[2:]
    top, bottom = int(0.1 * h), int(0.95 * h)
    left, right = int(0.05 * w), int(0.95 * w)
    rows = []
    for p, g in zip(depth[:, 0], gt[:, 0]):
        m = (g > 1e-3) & (g < opt.max_depth)
        crop = np.zeros_like(m)
        crop[top:bottom, left:right] = True
        m &= crop
        p_, g_ = np.clip(p[m], 1e-3, opt.max_depth), g[m]
        ratio = np.maximum(p_ / g_, g_ / p_)
        rows.append([
            (ratio < 1.25).mean(), (ratio < 1.25 ** 2).mean(), (ratio < 1.25 ** 3).mean(),
            np.mean(np.abs(p_ - g_) / g_), math.sqrt(np.mean((p_ - g_) ** 2)), np.mean(np.abs(np.log10(p_) - np.log10(g_))),
        ])
    return dict(zip(["a1", "a2", "a3", "abs_rel", "rmse", "log10"], np.mean(rows, 0).tolist()))


# ---------------------------------------------------------------- optimisation

def build_optimizer(model):
    enc = list(model.encoder.parameters())
    ids = {id(p) for p in enc}
    rest = [p for p in model.parameters() if id(p) not in ids]
    groups = [{"params": rest, "lr": opt.lr}, {"params": enc, "lr": opt.lr * opt.backbone_lr}]
    return torch.optim.SGD(groups, lr=opt.lr, momentum=opt.momentum, nesterov=True, weight_decay=opt.wd)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda it: (1 - min(it, opt.max_iter) / opt.max_iter) ** opt.power)


# ---------------------------------------------------------------- prediction

def predict(path, model):
    """Mean of the picture and its mirror image; sides blended as in the paper; at the size of the file."""
    img = torch.from_numpy(np.load(path)).permute(2, 0, 1).float() / 255.0
    img = (img - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    x = img[None].to(next(model.parameters()).dtype)
    with torch.no_grad():
        small = F.interpolate(x, size=opt.size, mode="bilinear", align_corners=False)
        a, _ = model(small)
        b, _ = model(torch.flip(small, [3]))
        b = torch.flip(b, [3])
        ramp = torch.linspace(0, 1, opt.size[1], dtype=x.dtype)
        left = 1.0 - torch.clamp(20 * (ramp - 0.05), 0, 1)
        right = torch.flip(left, [0])
        mean = 0.5 * (a + b)
        mix = right * a + left * b + (1 - left - right) * mean
        full = F.interpolate(mix, size=img.shape[1:], mode="bilinear", align_corners=True)
    return {"depth": full[0, 0].clamp(opt.min_depth, opt.max_depth).numpy()}
