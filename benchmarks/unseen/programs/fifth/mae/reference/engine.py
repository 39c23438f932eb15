import math
import numpy as np
import torch

from mae.model import patchify


class NormPixLoss:
    def __init__(self, patch=4, norm_pix=True):
        self.patch, self.norm_pix = patch, norm_pix

    def __call__(self, out, batch):
        target = patchify(batch["imgs"], self.patch)
        if self.norm_pix:
            mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
            target = (target - mean) / (var + 1.0e-6) ** 0.5
        loss = ((out["pred"] - target) ** 2).mean(-1)
        rec = (loss * out["mask"]).sum() / out["mask"].sum()
        # pull each cls towards its neighbour in the batch (stop-gradient on the neighbour)
        z = torch.nn.functional.normalize(out["cls"], dim=-1)
        align = 1 - (z * z.roll(1, 0).detach()).sum(-1).mean()
        return {"loss": rec + 0.1 * align, "rec": rec, "align": align}


def param_groups(model, wd):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 or name.endswith("_token") else decay).append(p)
    return [{"params": no_decay, "weight_decay": 0.0}, {"params": decay, "weight_decay": wd}]


class WarmupCosine:
    def __init__(self, opt, lr=1.5e-3, min_lr=1e-5, warmup=4, total=14):
        self.opt, self.lr, self.min_lr, self.warmup, self.total, self.epoch = opt, lr, min_lr, warmup, total, -1
        self.step()

    def step(self):
        self.epoch += 1
        e = self.epoch
        if e < self.warmup:
            lr = self.lr * (e + 1) / self.warmup
        else:
            prog = min(1.0, (e - self.warmup) / (self.total - self.warmup))
            lr = self.min_lr + (self.lr - self.min_lr) * 0.5 * (1.0 + math.cos(math.pi * prog))
        for g in self.opt.param_groups:
            g["lr"] = lr


def reconstruction_metrics(out, imgs):
    target = patchify(torch.as_tensor(imgs), 4).double()
    mu, sd = target.mean(-1, keepdim=True), (target.var(-1, keepdim=True) + 1e-6).sqrt()
    rec = out["pred"].double() * sd + mu
    m = out["mask"].bool()
    mse = ((rec - target) ** 2)[m].mean()
    span = target.max() - target.min()
    close = ((rec - target).abs() < 0.25 * span)[m].double().mean()
    return {"psnr": float(10 * torch.log10(span ** 2 / mse)), "close": float(close), "masked": float(m.double().mean())}
