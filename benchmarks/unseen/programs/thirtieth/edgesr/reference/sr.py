"""Residual x2 super-resolution with weight norm and pixel shuffle (WDSR style). PyTorch."""
import math
import os

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils import weight_norm
from torch.utils.data import DataLoader, Dataset

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {
    "scale": 2, "features": 12, "blocks": 3, "expansion": 3, "low_rank": 0.75, "res_scale": 0.8,
    "patch": 12, "batch": 4, "lr": 1.5e-3, "tail_lr": 7.5e-4, "warmup": 8, "total": 120,
    "mean": (0.45, 0.47, 0.50),
}


def wn_conv(cin, cout, k):
    conv = nn.Conv2d(cin, cout, k, padding=k // 2)
    nn.init.kaiming_normal_(conv.weight, mode="fan_in", nonlinearity="relu")
    nn.init.zeros_(conv.bias)
    return weight_norm(conv)


class Block(nn.Module):
    def __init__(self, n, expansion, low_rank, res_scale):
        super().__init__()
        linear = int(n * low_rank)
        self.body = nn.Sequential(
            wn_conv(n, n * expansion, 1), nn.ReLU(inplace=True),
            wn_conv(n * expansion, linear, 1),
            wn_conv(linear, n, 3),
        )
        self.res_scale = res_scale

    def forward(self, x):
        return x + self.body(x) * self.res_scale


class WDSR(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        n, s = cfg["features"], cfg["scale"]
        self.register_buffer("mean", torch.tensor(cfg["mean"]).view(1, 3, 1, 1))
        self.head = wn_conv(3, n, 3)
        self.body = nn.Sequential(*[
            Block(n, cfg["expansion"], cfg["low_rank"], cfg["res_scale"]) for _ in range(cfg["blocks"])])
        self.tail = nn.Sequential(wn_conv(n, 3 * s * s, 3), nn.PixelShuffle(s))
        self.skip = nn.Sequential(wn_conv(3, 3 * s * s, 5), nn.PixelShuffle(s))

    def forward(self, x):
        x = x - self.mean
        return self.tail(self.body(self.head(x))) + self.skip(x) + self.mean


class Patches(Dataset):
    """Fixed grid of high-resolution patches; the low-resolution input is a box average."""

    def __init__(self, split, cfg):
        size, scale = cfg["patch"] * cfg["scale"], cfg["scale"]
        self.augment = split == "train"
        self.items = []
        with np.load(os.path.join(HERE, "..", "data", "photos.npz")) as z:
            names = sorted(z.files)
            for name in names[:7] if split == "train" else names[7:]:
                img = z[name]
                for top in range(0, img.shape[0] - size + 1, 16):
                    for left in range(0, img.shape[1] - size + 1, 16):
                        self.items.append(img[top:top + size, left:left + size])
        self.scale = scale

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        hr = torch.from_numpy(self.items[i].astype(np.float32) / 255.0).permute(2, 0, 1)
        if self.augment:                       # one of eight views, tied to the index
            if i % 2:
                hr = hr.flip(-1)
            hr = torch.rot90(hr, (i // 2) % 4, (1, 2))
        c, h, w = hr.shape
        s = self.scale
        lr = hr.reshape(c, h // s, s, w // s, s).mean((2, 4))
        return lr.contiguous(), hr.contiguous()


def build_model():
    return WDSR(CONFIG)


def build_dataset(split):
    return Patches(split, CONFIG)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(build_dataset(split), batch_size=CONFIG["batch"] if train else 4,
                      shuffle=train, drop_last=train)


def charbonnier(a, b, eps=1e-3):
    return torch.sqrt((a - b) ** 2 + eps ** 2).mean()


def gradients(x):
    return x[..., :, 1:] - x[..., :, :-1], x[..., 1:, :] - x[..., :-1, :]


def loss(outputs, labels):
    pixel = charbonnier(outputs, labels)
    edge = sum(nn.functional.l1_loss(a, b) for a, b in zip(gradients(outputs), gradients(labels)))
    return {"loss": pixel + 0.1 * edge, "pixel": pixel, "edge": edge}


def to_luma(x):
    r, g, b = x.clamp(0, 1).unbind(1)
    return (65.481 * r + 128.553 * g + 24.966 * b + 16.0) / 255.0


def metric(outputs, labels):
    crop = CONFIG["scale"]
    diff = (to_luma(outputs) - to_luma(labels))[:, crop:-crop, crop:-crop]
    mse = diff.pow(2).flatten(1).mean(1).clamp(min=1e-10)
    return {"psnr_y": (-10 * torch.log10(mse)).mean().item()}


def build_optimizer(model):
    tail = [p for n, p in model.named_parameters() if n.startswith(("tail", "skip"))]
    rest = [p for n, p in model.named_parameters() if not n.startswith(("tail", "skip"))]
    return torch.optim.Adam([{"params": rest, "lr": CONFIG["lr"]},
                             {"params": tail, "lr": CONFIG["tail_lr"]}], betas=(0.9, 0.99), eps=1e-7)


def build_scheduler(optimizer):
    warm, total = CONFIG["warmup"], CONFIG["total"]

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    low, high = batch
    out = model(low)
    parts = loss(out, high)
    optimizer.zero_grad(set_to_none=True)
    parts["loss"].backward()
    optimizer.step()
    return {k: v.detach() for k, v in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    img = np.load(path).astype(np.float32) / 255.0
    x = torch.from_numpy(img).permute(2, 0, 1)[None]
    # self-ensemble over horizontal flips
    y = (model(x) + model(x.flip(-1)).flip(-1)) / 2
    y = y.clamp(0, 1)[0].permute(1, 2, 0).numpy()
    return {"image": y, "size": [y.shape[0], y.shape[1]]}
