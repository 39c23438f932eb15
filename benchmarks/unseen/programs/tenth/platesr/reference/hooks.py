"""Training objects of the original, and what the comparison calls."""
import math

import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import LRScheduler

from .options import OPT
from .plates import Plates, loader
from .unet import Restorer


def build_model():
    return Restorer()


def build_dataset(split):
    return Plates(split)


def build_dataloader(split):
    return loader(split)


def edges(img):
    kx = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], dtype=img.dtype, device=img.device) / 8
    k = torch.stack([kx, kx.T])[:, None].repeat(3, 1, 1, 1)
    return F.conv2d(F.pad(img, (1, 1, 1, 1), mode="replicate"), k, groups=3)


def loss(outputs, labels):
    o = OPT.loss
    clean, mask = labels[:, :3], labels[:, 3:]
    count = mask.sum() * 3
    pixel = (torch.sqrt((outputs - clean) ** 2 + o.charbonnier ** 2) * mask).sum() / count
    edge = (F.smooth_l1_loss(edges(outputs), edges(clean), reduction="none", beta=0.1) * mask).sum() / (2 * count)
    filled = outputs * mask + clean * (1 - mask)
    gap = torch.fft.rfft2(filled, norm="ortho") - torch.fft.rfft2(clean, norm="ortho")
    spectrum = torch.sqrt(gap.real ** 2 + gap.imag ** 2 + 1e-8).mean()
    return {"loss": pixel + o.edge * edge + o.spectrum * spectrum, "pixel": pixel, "edge": edge, "spectrum": spectrum}


def luma(img):
    return 16 / 255 + (65.481 * img[:, 0] + 128.553 * img[:, 1] + 24.966 * img[:, 2]) / 255


def ssim(a, b):
    t = torch.arange(7, dtype=torch.float64) - 3
    g = torch.exp(-t ** 2 / (2 * 1.5 ** 2))
    g = g / g.sum()
    w = (g[:, None] * g[None])[None, None]
    f = lambda x: F.conv2d(x[:, None].double(), w)
    ma, mb = f(a), f(b)
    va, vb, cov = f(a * a) - ma ** 2, f(b * b) - mb ** 2, f(a * b) - ma * mb
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    s = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma ** 2 + mb ** 2 + c1) * (va + vb + c2))
    return s.mean((1, 2, 3))


def metric(outputs, labels):
    b = OPT.border
    cut = lambda x: luma(x.double().clamp(0, 1))[:, b:-b, b:-b]
    a, c = cut(outputs), cut(labels[:, :3])
    mse = ((a - c) ** 2).mean((1, 2))
    psnr = -10 * torch.log10(mse.clamp(min=1e-10))
    return {"psnr": psnr.mean().item(), "ssim": ssim(a, c).mean().item()}


def build_optimizer(model):
    t = OPT.train
    return torch.optim.Adam(model.net.parameters(), lr=t.lr, betas=t.betas)


class CosineRestart(LRScheduler):
    """Cosine periods of their own lengths, each beginning at its own share of the rate."""

    def __init__(self, optimizer, periods, weights, floor):
        self.periods, self.weights, self.floor = periods, weights, floor
        super().__init__(optimizer)

    def get_lr(self):
        start = 0
        for period, weight in zip(self.periods, self.weights):
            if self.last_epoch < start + period:
                break
            start += period
        else:
            start -= period
        done = min((self.last_epoch - start) / period, 1.0)
        return [self.floor + weight * 0.5 * (base - self.floor) * (1 + math.cos(math.pi * done)) for base in self.base_lrs]


def build_scheduler(optimizer):
    t = OPT.train
    return CosineRestart(optimizer, t.periods, t.restarts, t.floor)


def train_step(model, optimizer, batch):
    t = OPT.train
    lr, labels = batch
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    parts = zip(lr.chunk(t.micro_batches), labels.chunk(t.micro_batches))
    for x, y in parts:
        value = loss(model(x), y)["loss"] / t.micro_batches
        value.backward()
        total = total + value.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.net.parameters(), t.clip)
    optimizer.step()
    decay = model.track(t.ema)
    return {"loss": total, "norm": norm, "decay": decay}
