"""Doubling the sampling rate of an ECG strip: a network made of a list of strings (PyTorch)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import weight_norm
from torch.utils.data import DataLoader, Dataset

SPEC = ["pad:4", "conv:1:12:5", "act:lrelu", "gated:12:1", "gated:12:2", "shuffle:2", "gated:12:4", "crop:4",
        "up:12:8", "act:elu", "grouped:8:2:3", "act:lrelu", "conv:8:1:1"]
FRAME, HOP = 32, 16
CLIP = 0.02

BLOCKS = {}


def register(name):
    def add(maker):
        BLOCKS[name] = maker
        return maker
    return add


@register("conv")
class Conv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(int(cin), int(cout), int(k), padding=int(k) // 2))

    def forward(self, x):
        return self.conv(x)


@register("grouped")
class Grouped(nn.Module):
    def __init__(self, width, groups, k):
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(int(width), int(width), int(k), padding=int(k) // 2,
                                          padding_mode="replicate", groups=int(groups)))

    def forward(self, x):
        return x + self.conv(x)


@register("gated")
class Gated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        width, dilation = int(width), int(dilation)
        self.both = weight_norm(nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation))
        self.mix = weight_norm(nn.Conv1d(width, width, 1))

    def forward(self, x):
        a, b = self.both(x).chunk(2, dim=1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


@register("up")
class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.deconv = weight_norm(nn.ConvTranspose1d(int(cin), int(cout), 5, stride=2, padding=2, output_padding=1))

    def forward(self, x):
        return self.deconv(x)


@register("shuffle")
class ChannelShuffle(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = int(groups)

    def forward(self, x):
        b, c, t = x.shape
        return x.view(b, self.groups, c // self.groups, t).transpose(1, 2).reshape(b, c, t)


@register("pad")
class Pad(nn.ReflectionPad1d):
    def __init__(self, n):
        super().__init__(int(n))


@register("crop")
class Crop(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = int(n)

    def forward(self, x):
        return x[..., self.n:-self.n]


@register("act")
def act(kind):
    return {"lrelu": nn.LeakyReLU(0.2), "elu": nn.ELU()}[kind]


def make(line):
    name, *args = line.split(":")
    return BLOCKS[name](*args)


class Upsampler(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.net = nn.Sequential(*[make(line) for line in spec])
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, low):
        base = F.interpolate(low, scale_factor=2, mode="linear", align_corners=False)
        return base + self.scale * self.net(low)


def build_model():
    return Upsampler(SPEC)


def magnitudes(x):
    frames = x.squeeze(1).unfold(-1, FRAME, HOP)
    window = torch.hann_window(FRAME, periodic=True, dtype=torch.float64).to(x)
    s = torch.fft.rfft(frames * window)
    return torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-6)


def loss(outputs, labels):
    charbonnier = torch.sqrt((outputs - labels) ** 2 + 1e-6).mean()
    a, b = magnitudes(outputs), magnitudes(labels)
    convergence = torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b)
    logarithm = F.smooth_l1_loss(a.log(), b.log(), beta=0.5)
    return charbonnier + 0.3 * convergence + 0.1 * logarithm


def metric(outputs, labels):
    x, y = (v.detach().cpu().numpy().astype(np.float64)[:, 0] for v in (outputs, labels))
    err = ((x - y) ** 2).sum(1)
    snr = 10 * np.log10((y ** 2).sum(1) / err)
    prd = 100 * np.sqrt(err / ((y - y.mean(1, keepdims=True)) ** 2).sum(1))
    late = np.abs(x.argmax(1) - y.argmax(1))
    return {"snr_db": float(snr.mean()), "prd": float(np.median(prd)), "peak_shift": float(late.mean())}


class Strips(Dataset):
    def __init__(self, split):
        self.data = np.load(f"data/ecg_{split}.npy")
        self.train = split == "train"

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        rng = np.random.RandomState(900 + i)
        start = rng.randint(0, 33) if self.train else 16
        high = self.data[i, start:start + 128].astype(np.float32) / 500
        if self.train:
            high = high * np.float32(rng.uniform(0.7, 1.4))
            phase, depth = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.3)
            high = high + (depth * np.sin(np.arange(128) * 2 * np.pi / 128 + phase)).astype(np.float32)
            if rng.rand() < 0.3:
                high = -high
        low = high.reshape(64, 2).mean(1) + 0.01 * rng.standard_normal(64).astype(np.float32)
        return low[None].astype(np.float32), high[None].astype(np.float32)


def build_dataset(split):
    return Strips(split)


def build_dataloader(split):
    return DataLoader(Strips(split), batch_size=4, shuffle=split == "train")


def build_optimizer(model):
    gains = [p for n, p in model.named_parameters() if n.endswith("_g") or n == "scale"]
    rest = [p for n, p in model.named_parameters() if not (n.endswith("_g") or n == "scale")]
    return torch.optim.AdamW([{"params": rest}, {"params": gains, "lr": 2e-3, "weight_decay": 0.0}],
                             lr=4e-3, weight_decay=0.05, amsgrad=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=6, T_mult=2)


def train_step(model, optimizer, batch):
    low, high = batch
    optimizer.zero_grad()
    value = loss(model(low), high)
    value.backward()
    nn.utils.clip_grad_value_(model.parameters(), CLIP)
    optimizer.step()
    return value.item()


def predict(path, model):
    low = torch.from_numpy(np.load(path)).to(model.scale.dtype)
    with torch.no_grad():
        return model(low[None, None])[0, 0].numpy()
