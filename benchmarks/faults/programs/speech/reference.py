"""A small recogniser of speech: log-mel frames, weight-normed convolutions with gates, a Conformer block, characters over time; PyTorch."""

import math

import numpy as np
import torch
from given import crops
from torch import nn
from torch.nn import functional as F

FRAME, HOP, MELS, WIDTH, HEADS, LETTERS, FAR = 64, 32, 20, 32, 4, 18, 6
LENGTH = 1024


def filters():
    """Triangles on the mel scale, of shape (bins, mels)."""
    high = 2595 * math.log10(1 + 4000 / 700)
    edges = 700 * (10 ** (torch.linspace(0, high, MELS + 2, dtype=torch.float64) / 2595) - 1)
    bins = torch.linspace(0, 4000, FRAME // 2 + 1, dtype=torch.float64)[:, None]
    up = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return torch.minimum(up, down).clamp(min=0).float()


class Features(nn.Module):
    """The logarithm of mel energies, normalised over each utterance."""

    def __init__(self):
        super().__init__()
        window = torch.hann_window(FRAME, periodic=True, dtype=torch.float64)
        angle = 2 * math.pi * torch.outer(torch.arange(FRAME // 2 + 1), torch.arange(FRAME)).double() / FRAME
        basis = torch.cat([torch.cos(angle), -torch.sin(angle)]) * window
        self.register_buffer("basis", basis.float()[:, None], persistent=False)
        self.register_buffer("filters", filters(), persistent=False)

    def forward(self, signal, valid):
        signal = torch.cat([signal[:, :1], signal[:, 1:] - 0.97 * signal[:, :-1]], 1)
        real, imaginary = F.conv1d(signal[:, None], self.basis, stride=HOP).chunk(2, 1)
        energy = torch.einsum("bft,fm->btm", real**2 + imaginary**2, self.filters)
        mels = torch.log(energy.clamp(min=1e-5))
        count = valid.sum(1)[:, None, None].to(mels.dtype)
        mean = (mels * valid[..., None]).sum(1, keepdim=True) / count
        spread = ((mels - mean) ** 2 * valid[..., None]).sum(1, keepdim=True) / (count - 1)
        return (mels - mean) / (spread.sqrt() + 1e-5) * valid[..., None]


class NormedConv(nn.Module):
    """A convolution over time whose kernels have a direction and a length."""

    def __init__(self, inner, outer, kernel, stride=1, dilation=1):
        super().__init__()
        self.v = nn.Parameter(torch.randn(outer, inner, kernel) * 0.3)
        self.g = nn.Parameter(torch.ones(outer, 1, 1))
        self.bias = nn.Parameter(torch.zeros(outer))
        self.options = {"stride": stride, "dilation": dilation, "padding": dilation * (kernel - 1) // 2}

    def forward(self, x):
        weight = self.g * self.v / self.v.flatten(1).norm(dim=1)[:, None, None]
        return F.conv1d(x, weight, self.bias, **self.options)


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH))


class Attention(nn.Module):
    """With a learned bias for each head and distance, distances beyond ``FAR`` as one."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.far = nn.Embedding(2 * FAR + 1, HEADS)

    def forward(self, x, valid):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        place = torch.arange(x.shape[1])
        distance = (place[None] - place[:, None]).clamp(-FAR, FAR) + FAR
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.far(distance).permute(2, 0, 1)
        scores = scores.masked_fill(~valid[:, None, None], -math.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.batch = nn.LayerNorm(WIDTH), nn.BatchNorm1d(WIDTH)
        self.enter, self.leave = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.deep = nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH)

    def forward(self, x, valid):
        y = F.glu(self.enter(self.norm(x).transpose(1, 2)), dim=1) * valid[:, None]
        return self.leave(F.silu(self.batch(self.deep(y)))).transpose(1, 2)


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Features()
        self.convs = nn.ModuleList([NormedConv(MELS, 2 * WIDTH, 3, stride=2), NormedConv(WIDTH, 2 * WIDTH, 3, dilation=2)])
        self.before, self.after = FeedForward(), FeedForward()
        self.attention, self.convolution = Attention(), Convolution()
        self.squeeze, self.excite = nn.Linear(WIDTH, WIDTH // 4), nn.Linear(WIDTH // 4, WIDTH)
        self.norm, self.letters = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, signal, lengths):
        frames = (lengths - FRAME) // HOP + 1
        valid = torch.arange((signal.shape[1] - FRAME) // HOP + 1) < frames[:, None]
        x = self.features(signal, valid).transpose(1, 2)
        x = F.glu(self.convs[0](x), dim=1)
        x = x + F.glu(self.convs[1](x), dim=1)
        valid = valid[:, ::2]
        share = (x * valid[:, None]).sum(2) / valid.sum(1, keepdim=True)
        x = x * self.excite(self.squeeze(share).relu()).sigmoid()[..., None]
        x = x.transpose(1, 2)
        x = x + 0.5 * self.before(x)
        x = x + self.attention(x, valid)
        x = x + self.convolution(x, valid)
        x = x + 0.5 * self.after(x)
        x = self.letters(self.norm(x)).log_softmax(-1).transpose(0, 1)
        return {"chances": x, "lengths": valid.sum(1)}


def build_model():
    torch.manual_seed(13)
    model = Recogniser()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1 or name.endswith(".g"):
            parameter.data += 0.2 * torch.randn_like(parameter)
        elif "far" not in name:
            parameter.data *= 1.5
    model.convolution.batch.running_mean += 0.1 * torch.randn(WIDTH)
    model.convolution.batch.running_var *= 0.5 + torch.rand(WIDTH)
    return model


def inputs():
    found = crops(3, 32, seed=31)[..., 1].reshape(3, LENGTH).astype("float32") / 255
    lengths = np.array([LENGTH, 800, 610])
    found = (found - found.mean(1, keepdims=True)) * (np.arange(LENGTH) < lengths[:, None])
    return {"signal": np.ascontiguousarray(found, "float32"), "lengths": lengths}
