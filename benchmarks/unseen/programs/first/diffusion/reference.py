import math
import torch
from torch import nn
import torch.nn.functional as F


def cosine_betas(T, s=0.008, max_beta=0.999):
    f = lambda u: math.cos((u + s) / (1 + s) * math.pi / 2) ** 2
    return torch.tensor([min(1 - f((i + 1) / T) / f(i / T), max_beta) for i in range(T)], dtype=torch.float64)


def extract(a, t, x):
    return a[t].view(-1, *([1] * (x.ndim - 1)))


class SinusoidalEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / (half - 1))
        a = t[:, None] * freqs[None]
        return torch.cat([a.sin(), a.cos()], -1)


class Block(nn.Module):
    def __init__(self, cin, cout, demb, groups=4):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, cin) if cin % groups == 0 else nn.Identity()
        self.conv1 = nn.Conv1d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(demb, 2 * cout)
        self.norm2 = nn.GroupNorm(groups, cout, eps=1e-6)
        self.conv2 = nn.Conv1d(cout, cout, 3, padding=1)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(e))[:, :, None].chunk(2, 1)
        h = self.norm2(h) * (1 + scale) + shift
        h = self.conv2(F.silu(h))
        return h + self.skip(x)


class Attn(nn.Module):
    def __init__(self, c, heads=2):
        super().__init__()
        self.h = heads
        self.norm = nn.GroupNorm(1, c)
        self.qkv = nn.Conv1d(c, 3 * c, 1, bias=False)
        self.out = nn.Conv1d(c, c, 1)

    def forward(self, x):
        B, C, L = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, 3, self.h, C // self.h, L).unbind(1)
        q = q * (C // self.h) ** -0.5
        a = torch.einsum("bhci,bhcj->bhij", q, k).softmax(-1)
        o = torch.einsum("bhij,bhcj->bhci", a, v).reshape(B, C, L)
        return x + self.out(o)


class UNet1d(nn.Module):
    def __init__(self, cin=2, c=8, demb=16):
        super().__init__()
        self.time = nn.Sequential(SinusoidalEmb(demb), nn.Linear(demb, 2 * demb), nn.SiLU(), nn.Linear(2 * demb, demb))
        self.stem = nn.Conv1d(cin, c, 7, padding=3)
        self.d1 = Block(c, c, demb)
        self.down = nn.Conv1d(c, 2 * c, 4, stride=2, padding=1)
        self.d2 = Block(2 * c, 2 * c, demb)
        self.attn = Attn(2 * c)
        self.up = nn.ConvTranspose1d(2 * c, c, 4, stride=2, padding=1)
        self.u1 = Block(2 * c, c, demb)
        self.final = nn.Conv1d(c, cin, 1)

    def forward(self, x, t):
        e = self.time(t)
        x = self.stem(x)
        r = self.d1(x, e)
        h = self.d2(self.down(r), e)
        h = self.attn(h)
        h = self.u1(torch.cat([self.up(h), r], 1), e)
        return self.final(h)


class GaussianDiffusion(nn.Module):
    def __init__(self, net, T=50):
        super().__init__()
        self.net = net
        betas = cosine_betas(T)
        alphas = 1 - betas
        bar = torch.cumprod(alphas, 0)
        prev = F.pad(bar[:-1], (1, 0), value=1.0)
        reg = lambda n, v: self.register_buffer(n, v.to(torch.get_default_dtype()))
        reg("sqrt_bar", bar.sqrt())
        reg("sqrt_one_minus_bar", (1 - bar).sqrt())
        reg("posterior_log_var", (betas * (1 - prev) / (1 - bar)).clamp(min=1e-20).log())
        reg("coef1", betas * prev.sqrt() / (1 - bar))
        reg("coef2", (1 - prev) * alphas.sqrt() / (1 - bar))
        snr = bar / (1 - bar)
        reg("weight", snr.clamp(max=5) / (snr + 1))

    def forward(self, x0, t, noise):
        xt = extract(self.sqrt_bar, t, x0) * x0 + extract(self.sqrt_one_minus_bar, t, x0) * noise
        v = self.net(xt, t)
        x0_hat = extract(self.sqrt_bar, t, xt) * xt - extract(self.sqrt_one_minus_bar, t, xt) * v
        mean = extract(self.coef1, t, xt) * x0_hat.clamp(-1, 1) + extract(self.coef2, t, xt) * xt
        target = extract(self.sqrt_bar, t, x0) * noise - extract(self.sqrt_one_minus_bar, t, x0) * x0
        return {"v": v, "target": target, "weight": self.weight[t], "mean": mean, "log_var": self.posterior_log_var[t]}


def build_model():
    return GaussianDiffusion(UNet1d())


def loss(out, labels):
    per = F.mse_loss(out["v"], out["target"], reduction="none").mean((1, 2))
    return (per * out["weight"]).mean() + 0.01 * F.l1_loss(out["mean"], labels)


def metric(out, labels):
    x = out["mean"] - labels
    return {"rmse": x.pow(2).mean().sqrt().item(), "psnr": (10 * torch.log10(4 / x.pow(2).mean((1, 2)))).mean().item()}


class ClippedAdamW(torch.optim.AdamW):
    @torch.no_grad()
    def step(self, closure=None):
        params = [p for g in self.param_groups for p in g["params"]]
        torch.nn.utils.clip_grad_norm_(params, 0.1)
        return super().step(closure)


def build_optimizer(model):
    return ClippedAdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), eps=1e-7)


def build_scheduler(opt):
    warm, total = 4, 16

    def f(i):
        if i < warm:
            return (i + 1) / warm
        p = (i - warm) / (total - warm)
        return max(0.05, 0.5 * (1 + math.cos(math.pi * p)))

    return torch.optim.lr_scheduler.LambdaLR(opt, f)
