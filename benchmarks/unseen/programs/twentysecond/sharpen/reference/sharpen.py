"""Two-fold super-resolution of noisy photographs, PyTorch."""
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sr_config import CFG
from sr_data import Patches, gauss, loader, normalise
from sr_net import Sharpener


def build_model():
    return Sharpener()


def build_dataset(split):
    return Patches(split)


def build_dataloader(split):
    return loader(split)


def _ssim(a, b):
    g = torch.tensor(gauss(CFG.loss.window, CFG.loss.sigma), dtype=a.dtype, device=a.device)
    kernel = (g[:, None] * g[None, :]).expand(3, 1, -1, -1)
    smooth = lambda t: F.conv2d(t, kernel, groups=3)
    ma, mb = smooth(a), smooth(b)
    va, vb, cov = smooth(a * a) - ma * ma, smooth(b * b) - mb * mb, smooth(a * b) - ma * mb
    c1, c2 = 0.01 ** 2, 0.03 ** 2
    return ((2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))).mean()


def _edges(t):
    k = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]], dtype=t.dtype) / 8.0
    kernel = torch.stack([k, k.T])[:, None].repeat(3, 1, 1, 1)
    return F.conv2d(t, kernel, groups=3)


def _charbonnier(d):
    return torch.sqrt(d * d + CFG.loss.eps ** 2).mean()


def loss(outputs, labels):
    pixel = _charbonnier(outputs - labels)
    edge = _charbonnier(_edges(outputs) - _edges(labels))
    return pixel + CFG.loss.ssim * (1 - _ssim(outputs, labels)) + CFG.loss.edge * edge


def _luma(x):
    return 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]


def _psnr(out, ref):
    s = CFG.infer.shave
    a, b = (_luma(v.clip(0.0, 1.0))[:, s:-s, s:-s] for v in (out, ref))
    mse = ((a - b) ** 2).mean(axis=(1, 2))
    return (10 * np.log10(1.0 / np.maximum(mse, 1e-10))).mean()


def metric(outputs, labels):
    a, b = (t.detach().cpu().double() for t in (outputs, labels))
    lap = lambda v: v[:, 1:-1, :-2] + v[:, 1:-1, 2:] + v[:, :-2, 1:-1] + v[:, 2:, 1:-1] - 4 * v[:, 1:-1, 1:-1]
    la, lb = (lap(_luma(t.numpy())) for t in (a, b))
    return {
        "psnr": float(_psnr(a.numpy(), b.numpy())),
        "ssim": float(_ssim(a, b)),
        "sharpness": float((la.var(axis=(1, 2), ddof=1) / lb.var(axis=(1, 2), ddof=1)).mean()),
        "bias": float((a - b).mean(dim=(0, 2, 3)).abs().max()),
    }


def build_optimizer(model):
    side = lambda n: "film" in n or "attend" in n
    named = list(model.named_parameters())
    t = CFG.train
    return torch.optim.Adam(
        [
            {"params": [p for n, p in named if not side(n)]},
            {"params": [p for n, p in named if side(n)], "lr": t.lr * t.side_factor, "weight_decay": 0.0},
        ],
        lr=t.lr, betas=(t.beta1, t.beta2), eps=t.adam_eps, weight_decay=t.decay,
    )


class Restarts(torch.optim.lr_scheduler.LRScheduler):
    """Cosine cycles, each period_mult times as long as the one before."""

    def get_lr(self):
        t, length = self.last_epoch, CFG.train.period
        while t >= length:
            t -= length
            length *= CFG.train.period_mult
        share = CFG.train.floor + (1 - CFG.train.floor) * (1 + math.cos(math.pi * t / length)) / 2
        return [base * share for base in self.base_lrs]


def build_scheduler(optimizer):
    return Restarts(optimizer)


def train_step(model, optimizer, batch):
    model.train()
    low, level, high = batch
    optimizer.zero_grad()
    total, outs = 0.0, []
    for l, v, h in zip(*(t.chunk(CFG.train.micro) for t in (low, level, high))):
        out = model(l, v)
        part = loss(out, h) * (len(l) / len(low))
        part.backward()
        total += part.item()
        outs.append(out.detach())
    norms = []
    for p in model.parameters():
        n = p.grad.norm()
        norms.append(n)
        if n > CFG.train.clip:
            p.grad.mul_(CFG.train.clip / n)
    optimizer.step()
    return {
        "loss": total,
        "psnr": float(_psnr(torch.cat(outs).double().numpy(), high.double().numpy())),
        "grad_norm": float(torch.stack(norms).max()),
    }


@torch.no_grad()
def predict(path, model):
    model.eval()
    low = np.asarray(Image.open(path).convert("RGB")) / 255.0
    x = torch.from_numpy(normalise(low))[None]
    level = torch.full((1, 1), CFG.infer.level * 25.0)
    views = []
    for dims in ([], [2], [3], [2, 3]):
        views.append(torch.flip(model(torch.flip(x, dims), level), dims))
    stack = torch.cat(views)
    image = stack.mean(dim=0).clamp(0.0, 1.0).permute(1, 2, 0).numpy()
    return {
        "image": image,
        "disagreement": stack.std(dim=0).mean().item(),
        "mean_rgb": image.mean(axis=(0, 1)).tolist(),
        "size": "%dx%d" % (image.shape[1], image.shape[0]),
    }
