"""Glow/RealNVP style flow for vectors: ActNorm, LU-parametrised linear, masked affine coupling; class-conditional base."""
import math
import numpy as np
import scipy.linalg
import torch
from torch import nn

D, H, K, LEVELS = 6, 16, 3, 3


class ActNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.loc = nn.Parameter(torch.randn(d) * 0.1)
        self.log_scale = nn.Parameter(torch.randn(d) * 0.1)

    def forward(self, x):
        return (x + self.loc) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))

    def inverse(self, y):
        return y * (-self.log_scale).exp() - self.loc


class LULinear(nn.Module):
    def __init__(self, d, seed):
        super().__init__()
        q = np.linalg.qr(np.random.RandomState(seed).randn(d, d))[0]
        p, l, u = scipy.linalg.lu(q)
        s = np.diag(u)
        f = lambda a: torch.tensor(a, dtype=torch.get_default_dtype())
        self.register_buffer("p", f(p))
        self.register_buffer("sign", f(np.sign(s)))
        self.register_buffer("mask", f(np.tril(np.ones((d, d)), -1)))
        self.l = nn.Parameter(f(l))
        self.u = nn.Parameter(f(np.triu(u, 1)))
        self.log_s = nn.Parameter(f(np.log(np.abs(s))))

    def matrix(self):
        eye = torch.eye(len(self.sign), dtype=self.l.dtype, device=self.l.device)
        l = self.l * self.mask + eye
        u = self.u * self.mask.t() + torch.diag(self.sign * self.log_s.exp())
        return self.p @ l @ u

    def forward(self, x):
        return x @ self.matrix().t(), self.log_s.sum().expand(len(x))

    def inverse(self, y):
        return torch.linalg.solve(self.matrix(), y.t()).t()


class Coupling(nn.Module):
    def __init__(self, d, h, flip):
        super().__init__()
        m = (torch.arange(d) % 2).float()
        self.register_buffer("m", 1 - m if flip else m)
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2 * d))
        self.rescale = nn.Parameter(torch.full((d,), 0.7))

    def params(self, x):
        s, t = self.net(x * self.m).chunk(2, dim=1)
        s = torch.tanh(s) * self.rescale
        return s * (1 - self.m), t * (1 - self.m)

    def forward(self, x):
        s, t = self.params(x)
        return x * s.exp() + t, s.sum(1)

    def inverse(self, y):
        s, t = self.params(y)
        return (y - t) * (-s).exp()


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        steps = []
        for i in range(LEVELS):
            steps += [ActNorm(D), LULinear(D, i), Coupling(D, H, i % 2 == 1)]
        self.steps = nn.ModuleList(steps)
        self.register_buffer("means", 1.5 * torch.eye(K, D))
        self.prior = nn.Parameter(torch.zeros(K))

    def forward(self, x):
        ld = x.new_zeros(len(x))
        # logit transform of squashed data
        x = 0.05 + 0.9 * torch.sigmoid(x)
        ld = ld - (x.log() + (1 - x).log()).sum(1)
        z = torch.log(x) - torch.log1p(-x)
        for f in self.steps:
            z, d = f(z)
            ld = ld + d
        base = -0.5 * ((z[:, None] - self.means) ** 2).sum(-1) - 0.5 * D * math.log(2 * math.pi)
        back = z
        for f in reversed(self.steps):
            back = f.inverse(back)
        return {"z": z, "log_det": ld, "joint": base + ld[:, None] + torch.log_softmax(self.prior, 0), "back": back}


def build_model():
    return Flow()


def loss(out, y):
    nll = -torch.logsumexp(out["joint"], 1).mean() / (D * math.log(2))
    ce = nn.functional.cross_entropy(out["joint"], y, label_smoothing=0.1, weight=None)
    return nll + 0.3 * ce


def metric(out, y):
    p = out["joint"].softmax(1)
    conf, pred = p.max(1)
    acc = (pred == y).to(p.dtype)
    ece = 0.0
    for lo in np.arange(0, 1, 0.2):
        s = (conf > lo) & (conf <= lo + 0.2)
        if s.any():
            ece += (s.to(p.dtype).mean() * (acc[s].mean() - conf[s].mean()).abs()).item()
    return {"acc": acc.mean().item(), "ece": ece, "bpd": (-torch.logsumexp(out["joint"], 1) / (D * math.log(2))).mean().item()}


def build_optimizer(model):
    decay = [p for n, p in model.named_parameters() if n.endswith("weight")]
    other = [p for n, p in model.named_parameters() if not n.endswith("weight")]
    return torch.optim.NAdam([{"params": decay, "weight_decay": 1e-2}, {"params": other, "weight_decay": 0.0}], lr=2e-3)
