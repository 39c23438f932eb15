"""Fill gaps in sonar traces. A script: settings are globals, blocks are closures over them."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

LENGTH = 48
WIDTH = 12
BATCH = 4
LR, WARM, TOTAL, POWER = 3e-3, 5, 40, 1.5
CLIP = 0.15
EPS = 1e-3


class SpectralConv(nn.Module):
    """Convolution divided by its largest singular value: one power iteration per training pass."""

    def __init__(self, n_in, n_out, kernel, **how):
        super().__init__()
        conv = nn.Conv1d(n_in, n_out, kernel, **how)
        self.weight, self.bias, self.how = conv.weight, conv.bias, how
        u = np.random.RandomState(n_in + n_out).randn(n_out).astype(np.float32)
        self.register_buffer("u", torch.from_numpy(u / np.linalg.norm(u)))

    def forward(self, x):
        flat = self.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(flat.t() @ self.u, dim=0, eps=1e-12)
            u = F.normalize(flat @ v, dim=0, eps=1e-12)
            if self.training:
                self.u.copy_(u)
        sigma = torch.dot(u, flat @ v)
        return F.conv1d(x, self.weight / sigma, self.bias, **self.how)


def norm_act(slope):
    def run(norm, x):
        return F.leaky_relu(norm(x), slope)
    return run


def residual(scale):
    def run(conv, x):
        return x + scale * torch.tanh(conv(x))
    return run


activate, refine = norm_act(0.2), residual(0.7)


class Filler(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = SpectralConv(2, WIDTH, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(3, WIDTH)
        self.mid = nn.ModuleList(
            SpectralConv(WIDTH, WIDTH, 3, padding=d, dilation=d, groups=2) for d in (1, 2, 4))
        self.gate = nn.Linear(WIDTH * 2, WIDTH)
        self.up = nn.ConvTranspose1d(WIDTH, 6, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv1d(6 + WIDTH, 1, 3, padding=1, padding_mode="replicate")

    def forward(self, trace):
        known = trace[:, :1] * trace[:, 1:]
        h = activate(self.norm, self.enc(trace))
        skip = F.interpolate(h, scale_factor=2, mode="nearest")
        for conv in self.mid:
            h = refine(conv, h)
        pooled = F.adaptive_avg_pool1d(h, 2).flatten(1)
        h = h * torch.sigmoid(self.gate(pooled)).unsqueeze(-1)
        fill = self.out(torch.cat([F.elu(self.up(h)), skip], dim=1))
        return known + fill * (1 - trace[:, 1:])


def build_model():
    return Filler()


def loss(outputs, labels):
    rough = torch.sqrt((outputs - labels) ** 2 + EPS ** 2).mean()
    a, b = torch.fft.rfft(outputs, dim=-1), torch.fft.rfft(labels, dim=-1)
    power = ((a.real ** 2 + a.imag ** 2) - (b.real ** 2 + b.imag ** 2)) / LENGTH
    return rough + 0.1 * (power ** 2).mean()


def metric(outputs, labels):
    a, b = outputs.detach().cpu().numpy(), labels.cpu().numpy()
    mse = ((a - b) ** 2).mean(axis=(1, 2))
    peak = np.abs(b).max(axis=(1, 2))
    return {"psnr": float(np.mean(10 * np.log10(peak ** 2 / mse))), "rmse": float(np.sqrt(mse.mean()))}


class Traces(torch.utils.data.Dataset):
    def __init__(self, split):
        self.data, self.train = np.load(f"data/{split}.npy"), split == "train"

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        rng = np.random.RandomState(60 + i)
        y = self.data[i]
        if self.train and rng.rand() < 0.5:
            y = y[::-1].copy()
        start, width = rng.randint(4, 32), rng.randint(5, 12)
        mask = np.ones_like(y)
        mask[start:start + width] = 0
        return torch.from_numpy(np.stack([y * mask, mask])), torch.from_numpy(y[None].copy())


def build_dataset(split):
    return Traces(split)


def build_dataloader(split):
    return DataLoader(Traces(split), batch_size=BATCH)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=LR, weight_decay=1e-3)


def build_scheduler(optimizer):
    def factor(step):
        if step < WARM:
            return (step + 1) / WARM
        return max(0.02, (1 - (step - WARM) / (TOTAL - WARM)) ** POWER) if step < TOTAL else 0.02
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    value = loss(model(batch[0]), batch[1])
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return value.item()


def predict(path, model):
    raw = np.load(path)
    mask = np.isfinite(raw)
    x = torch.from_numpy(np.stack([np.where(mask, raw, 0), mask], axis=1).astype(np.float32))
    with torch.no_grad():
        return model(x.to(model.enc.weight.dtype))[:, 0].cpu().numpy()
