"""Temporal convolutional network with weight normalisation and a mixture density head."""
import math
import os
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
from torch.nn.utils import weight_norm  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW, HORIZON, K = 20, 2, 3


class Chomp1d(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def forward(self, x):
        return x[:, :, :-self.n].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, k, dilation, dropout):
        super().__init__()
        pad = (k - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(cin, cout, k, padding=pad, dilation=dilation))
        self.chomp1, self.relu1, self.dropout1 = Chomp1d(pad), nn.ReLU(), nn.Dropout(dropout)
        self.conv2 = weight_norm(nn.Conv1d(cout, cout, k, padding=pad, dilation=dilation))
        self.chomp2, self.relu2, self.dropout2 = Chomp1d(pad), nn.ReLU(), nn.Dropout(dropout)
        self.net = nn.Sequential(self.conv1, self.chomp1, self.relu1, self.dropout1, self.conv2, self.chomp2, self.relu2, self.dropout2)
        self.downsample = nn.Conv1d(cin, cout, 1) if cin != cout else None
        self.relu = nn.ReLU()

    def forward(self, x):
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(out + res)


class MDN(nn.Module):
    def __init__(self, n, out, k):
        super().__init__()
        self.out, self.k = out, k
        self.pi, self.mu, self.sigma = nn.Linear(n, k), nn.Linear(n, k * out), nn.Linear(n, k * out)

    def forward(self, h):
        mu = self.mu(h).view(-1, self.k, self.out)
        sigma = F.softplus(self.sigma(h)).view(-1, self.k, self.out) + 1e-3
        return F.log_softmax(self.pi(h), -1), mu, sigma


class RevIN(nn.Module):
    """normalises each window by itself and undoes it at the end"""

    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma, self.beta = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def norm(self, x):
        self.mean = x.mean(1, keepdim=True).detach()
        self.std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - self.mean) / self.std * self.gamma + self.beta


class Forecaster(nn.Module):
    def __init__(self, n=2, channels=(8, 8, 12)):
        super().__init__()
        self.revin = RevIN(n)
        layers = []
        for i, c in enumerate(channels):
            layers.append(TemporalBlock(n if i == 0 else channels[i - 1], c, 3, 2 ** i, 0.2))
        self.tcn = nn.Sequential(*layers)
        self.mdn = MDN(channels[-1], HORIZON, K)

    def forward(self, x):
        h = self.tcn(self.revin.norm(x).transpose(1, 2))
        logpi, mu, sigma = self.mdn(h[:, :, -1])
        m, s = self.revin.mean[:, 0, :1, None], self.revin.std[:, 0, :1, None]
        return logpi, mu * s + m, sigma * s


def build_model():
    return Forecaster()


def loss(outputs, labels):
    logpi, mu, sigma = outputs
    normal = torch.distributions.Normal(mu, sigma)
    logp = normal.log_prob(labels.unsqueeze(1)).sum(-1)
    return -torch.logsumexp(logpi + logp, dim=1).mean()


def metric(outputs, labels):
    logpi, mu, sigma = outputs
    pi = logpi.exp()
    mean = (pi.unsqueeze(-1) * mu).sum(1)
    z = (labels.unsqueeze(1) - mu) / sigma
    cdf = (pi.unsqueeze(-1) * 0.5 * (1 + torch.erf(z / math.sqrt(2)))).sum(1)
    err = mean - labels
    smape = (2 * err.abs() / (mean.abs() + labels.abs())).mean()
    return {"mae": err.abs().mean().item(), "smape": smape.item(), "coverage": ((cdf > 0.1) & (cdf < 0.9)).float().mean().item()}


def read(path):
    a = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(1, 2), dtype=np.float32)
    return torch.from_numpy(a)


class Windows(Dataset):
    def __init__(self, split):
        data = read(os.path.join(HERE, "series", "train.csv" if split == "train" else "val.csv"))
        # fill gaps with the last value
        for t in range(1, len(data)):
            bad = torch.isnan(data[t])
            data[t][bad] = data[t - 1][bad]
        self.x = data[:, :].unfold(0, WINDOW + HORIZON, 3).transpose(1, 2)

    def __len__(self):
        return self.x.size(0)

    def __getitem__(self, i):
        w = self.x[i]
        return w[:WINDOW].clone(), w[WINDOW:, 0].clone()


def build_dataset(split):
    return Windows(split)


def build_dataloader(split):
    return DataLoader(Windows(split), batch_size=5, shuffle=False, drop_last=True)


class ClipValueAdam(torch.optim.Adam):
    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            torch.nn.utils.clip_grad_value_(g["params"], 0.1)
        return super().step(closure)


def build_optimizer(model):
    return ClipValueAdam(model.parameters(), lr=4e-3, amsgrad=True)


def build_scheduler(optimizer):
    # cosine with restarts, written out
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 * (1 + math.cos(math.pi * (e % 3) / 3)))


@torch.no_grad()
def predict(path, model):
    x = read(path)[-WINDOW:].unsqueeze(0).to(model.revin.gamma.dtype)
    logpi, mu, sigma = model(x)
    best = logpi.argmax(1)
    return {"mean": (logpi.exp().unsqueeze(-1) * mu).sum(1)[0], "mode": mu[0, best[0]], "component": best.item()}
