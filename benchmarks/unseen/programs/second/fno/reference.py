"""Fourier neural operator for a 2-D field."""
import glob
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class SpectralConv2d(nn.Module):
    def __init__(self, cin, cout, m1, m2):
        super().__init__()
        self.cout, self.m1, self.m2 = cout, m1, m2
        scale = 1 / (cin * cout)
        self.weights1 = nn.Parameter(scale * torch.rand(cin, cout, m1, m2, 2))
        self.weights2 = nn.Parameter(scale * torch.rand(cin, cout, m1, m2, 2))

    def mul(self, x, w):
        return torch.einsum("bixy,ioxy->boxy", x, torch.view_as_complex(w))

    def forward(self, x):
        b = x.shape[0]
        ft = torch.fft.rfft2(x)
        out = torch.zeros(b, self.cout, x.size(-2), x.size(-1) // 2 + 1, dtype=ft.dtype, device=x.device)
        out[:, :, :self.m1, :self.m2] = self.mul(ft[:, :, :self.m1, :self.m2], self.weights1)
        out[:, :, -self.m1:, :self.m2] = self.mul(ft[:, :, -self.m1:, :self.m2], self.weights2)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))


class FNO2d(nn.Module):
    def __init__(self, m1=3, m2=4, width=8, padding=2):
        super().__init__()
        self.padding = padding
        self.p = nn.Linear(3, width)
        self.conv0, self.conv1 = SpectralConv2d(width, width, m1, m2), SpectralConv2d(width, width, m1, m2)
        self.w0, self.w1 = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.norm = nn.InstanceNorm2d(width)
        self.q1, self.q2 = nn.Linear(width, 16), nn.Linear(16, 1)

    def grid(self, shape, x):
        b, h, w = shape[:3]
        gx = torch.linspace(0, 1, h, dtype=x.dtype, device=x.device).reshape(1, h, 1, 1).repeat(b, 1, w, 1)
        gy = torch.linspace(0, 1, w, dtype=x.dtype, device=x.device).reshape(1, 1, w, 1).repeat(b, h, 1, 1)
        return torch.cat((gx, gy), -1)

    def forward(self, x):
        x = torch.cat((x, self.grid(x.shape, x)), -1)
        x = self.p(x).permute(0, 3, 1, 2)
        x = F.pad(x, [0, self.padding, 0, self.padding])
        x = F.gelu(self.norm(self.conv0(self.norm(x))) + self.w0(x))
        x = self.norm(self.conv1(self.norm(x))) + self.w1(x)
        x = x[..., :-self.padding, :-self.padding].permute(0, 2, 3, 1)
        return self.q2(F.gelu(self.q1(x))).squeeze(-1)


def build_model():
    return FNO2d()


class LpLoss:
    def __init__(self, p=2):
        self.p = p

    def rel(self, x, y):
        n = x.size(0)
        diff = torch.norm(x.reshape(n, -1) - y.reshape(n, -1), self.p, 1)
        return torch.mean(diff / torch.norm(y.reshape(n, -1), self.p, 1))


def sobolev(x, y):
    k = torch.fft.fftfreq(x.size(1), d=1.0 / x.size(1), device=x.device, dtype=x.dtype)
    l = torch.fft.fftfreq(x.size(2), d=1.0 / x.size(2), device=x.device, dtype=x.dtype)
    w = 1 + 0.1 * (k[:, None] ** 2 + l[None, :] ** 2)
    fx, fy = torch.fft.fftn(x, dim=[1, 2]), torch.fft.fftn(y, dim=[1, 2])
    return ((w * (fx - fy).abs() ** 2).sum((1, 2)) / (w * fy.abs() ** 2).sum((1, 2))).sqrt().mean()


def loss(outputs, labels):
    return LpLoss().rel(outputs, labels) + 0.1 * sobolev(outputs, labels)


def metric(outputs, labels):
    d = outputs - labels
    return {"rmse": d.pow(2).mean().sqrt().item(), "max": d.abs().max().item(), "r2": (1 - d.pow(2).sum() / (labels - labels.mean()).pow(2).sum()).item()}


class Fields(torch.utils.data.Dataset):
    def __init__(self, split):
        self.files = sorted(glob.glob(os.path.join(HERE, "fields", split + "_*.npz")))
        train = [np.load(f)["a"][::2, ::2] for f in sorted(glob.glob(os.path.join(HERE, "fields", "train_*.npz")))]
        t = torch.from_numpy(np.stack(train)).float()
        self.mean, self.std = t.mean(0), t.std(0)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with np.load(self.files[i]) as z:
            a, u = torch.from_numpy(z["a"][::2, ::2]).float(), torch.from_numpy(z["u"][::2, ::2]).float()
        return ((a - self.mean) / (self.std + 1e-5)).unsqueeze(-1), u


def build_dataset(split):
    return Fields(split)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)


@torch.no_grad()
def predict(path, model):
    ds = Fields("val")
    i = [os.path.basename(f) for f in ds.files].index(os.path.basename(path))
    x = ds[i][0][None].to(model.p.weight.dtype)
    return {"field": model(x)[0]}
