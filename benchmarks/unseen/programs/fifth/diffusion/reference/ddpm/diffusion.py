import torch
import torch.nn as nn

from .schedule import cosine_betas
from .unet import UNet


class VDiffusion(nn.Module):
    def __init__(self, T=50):
        super().__init__()
        self.T = T
        self.net = UNet()
        betas = cosine_betas(T)
        alpha_bar = torch.cumprod(1 - betas, dim=0)
        self.register_buffer("sqrt_ab", alpha_bar.sqrt().float())
        self.register_buffer("sqrt_1mab", (1 - alpha_bar).sqrt().float())
        self.register_buffer("snr", (alpha_bar / (1 - alpha_bar)).float())

    @staticmethod
    def at(table, t, x):
        return table[t].to(x.dtype).view(-1, *([1] * (x.ndim - 1)))

    def q_sample(self, x0, t, noise):
        return self.at(self.sqrt_ab, t, x0) * x0 + self.at(self.sqrt_1mab, t, x0) * noise

    def forward(self, x0, t, noise=None):
        if noise is None:
            noise = torch.randn_like(x0)
        x_t = self.q_sample(x0, t, noise)
        target = self.at(self.sqrt_ab, t, x0) * noise - self.at(self.sqrt_1mab, t, x0) * x0
        v = self.net(x_t, t)
        x0_hat = self.at(self.sqrt_ab, t, x0) * x_t - self.at(self.sqrt_1mab, t, x0) * v
        return {"v": v, "target": target, "x0_hat": x0_hat, "snr": self.snr[t].to(x0.dtype)}

    @torch.no_grad()
    def ddim(self, x, steps=4):
        ts = torch.linspace(self.T - 1, 0, steps).round().long()
        for i, t in enumerate(ts):
            tt = t.repeat(x.shape[0])
            v = self.net(x, tt)
            a, s = self.sqrt_ab[t].to(x.dtype), self.sqrt_1mab[t].to(x.dtype)
            x0, eps = (a * x - s * v).clamp(-1, 1), a * v + s * x
            if i + 1 == len(ts):
                return x0
            n = ts[i + 1]
            x = self.sqrt_ab[n].to(x.dtype) * x0 + self.sqrt_1mab[n].to(x.dtype) * eps


class EMA:
    def __init__(self, model, decay=0.995, update_after=1):
        self.decay, self.update_after, self.n = decay, update_after, 0
        self.shadow = {k: p.detach().clone() for k, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = 0.0 if self.n <= self.update_after else min(self.decay, (1 + self.n) / (10 + self.n))
        for k, p in model.named_parameters():
            self.shadow[k].lerp_(p, 1 - d)
