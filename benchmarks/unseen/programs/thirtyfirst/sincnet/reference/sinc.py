"""Speaker recognition from the raw wave (SincNet, Ravanelli & Bengio 2018) with an AM-softmax head."""
import math
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
RATE, CHUNK, N_SPEAKERS = 8000, 1600, 5
BATCH, EPOCHS = 6, 8


class SpeechDataset(Dataset):
    def __init__(self, split):
        z = np.load(DATA / f"{split}.npz")
        self.wav = torch.from_numpy(z["wav"].astype(np.float32) / 32768.0)
        self.speaker = torch.from_numpy(z["speaker"]).long()

    def __len__(self):
        return len(self.speaker)

    def __getitem__(self, i):
        first = (self.wav.shape[1] - CHUNK) // 2
        return prepare(self.wav[i, first : first + CHUNK]), self.speaker[i]


def prepare(x):
    """Pre-emphasis and peak scaling; [T] -> [1, T]"""
    x = torch.cat([x[:1], x[1:] - 0.97 * x[:-1]])
    return (x / x.abs().max().clamp(min=1e-4)).unsqueeze(0)


class SincConv(nn.Module):
    """Band-pass filters with learned low cut-off and band width; mel-spaced at the start."""

    def __init__(self, out_channels, kernel_size, stride=1, min_low=50.0, min_band=50.0):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride
        self.min_low, self.min_band = min_low, min_band
        to_mel = lambda hz: 2595 * np.log10(1 + hz / 700)  # noqa: E731
        mel = np.linspace(to_mel(30), to_mel(RATE / 2 - (min_low + min_band)), out_channels + 1)
        hz = 700 * (10 ** (mel / 2595) - 1)
        self.low_hz_ = nn.Parameter(torch.tensor(hz[:-1] / RATE, dtype=torch.float32).view(-1, 1))
        self.band_hz_ = nn.Parameter(torch.tensor(np.diff(hz) / RATE, dtype=torch.float32).view(-1, 1))
        half = kernel_size // 2
        self.register_buffer("n_", 2 * math.pi * torch.arange(-half, 0.0).view(1, -1))
        self.register_buffer("window_", torch.hamming_window(kernel_size, periodic=False)[:half].view(1, -1))

    def filters(self):
        low = self.min_low / RATE + self.low_hz_.abs()
        high = torch.clamp(low + self.min_band / RATE + self.band_hz_.abs(), 0.0, 0.5)
        band = 2 * (high - low)
        left = (torch.sin(high * self.n_) - torch.sin(low * self.n_)) / (self.n_ / 2) * self.window_
        taps = torch.cat([left, band, left.flip(1)], dim=1) / band
        return taps.unsqueeze(1)

    def forward(self, x):
        return F.conv1d(x, self.filters(), stride=self.stride)


class ChannelNorm(nn.Module):
    """Layer norm over channels of [B, C, T]."""

    def __init__(self, c):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))

    def forward(self, x):
        m = x.mean(1, keepdim=True)
        v = x.var(1, keepdim=True, unbiased=False)
        return (x - m) / torch.sqrt(v + 1e-5) * self.gamma.view(1, -1, 1) + self.beta.view(1, -1, 1)


class SincNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inorm = nn.GroupNorm(1, 1, affine=False)
        self.sinc = SincConv(12, 65, stride=4)
        self.n0 = ChannelNorm(12)
        self.c1, self.n1 = nn.Conv1d(12, 16, 5), ChannelNorm(16)
        self.c2, self.n2 = nn.Conv1d(16, 16, 3, dilation=2, groups=2), ChannelNorm(16)
        self.act = nn.LeakyReLU(0.2)
        self.attend = nn.Conv1d(16, 1, 1, bias=False)
        self.embed = nn.Linear(32, 20)
        self.centres = nn.Parameter(torch.empty(N_SPEAKERS, 20))
        for m in self.modules():
            if isinstance(m, (nn.Conv1d, nn.Linear)):
                nn.init.kaiming_normal_(m.weight, a=0.2, mode="fan_out")
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0.0)
        nn.init.normal_(self.centres, std=20 ** -0.5)

    def forward(self, x):
        x = self.act(self.n0(F.max_pool1d(self.sinc(self.inorm(x)).abs(), 3)))
        x = self.act(self.n1(F.max_pool1d(self.c1(x), 3)))
        x = self.act(self.n2(self.c2(x)))
        w = torch.softmax(self.attend(x), dim=-1)  # attentive statistics pooling
        mean = (w * x).sum(-1)
        std = ((w * (x - mean.unsqueeze(-1)) ** 2).sum(-1) + 1e-5).sqrt()
        e = F.normalize(self.embed(torch.cat([mean, std], 1)), dim=1)
        return e @ F.normalize(self.centres, dim=1).t(), e


def build_model():
    return SincNet()


def build_dataset(split):
    return SpeechDataset(split)


def build_dataloader(split):
    return DataLoader(SpeechDataset(split), BATCH, shuffle=split == "train", drop_last=split == "train")


def loss(outputs, labels, margin=0.2, scale=16.0):
    cos, _ = outputs
    margins = margin * F.one_hot(labels, N_SPEAKERS)
    return F.cross_entropy(scale * (cos - margins), labels, label_smoothing=0.1)


def metric(outputs, labels):
    cos, emb = outputs
    same = (labels[:, None] == labels[None]) & ~torch.eye(len(labels), dtype=torch.bool)
    sim = emb @ emb.T
    return {
        "accuracy": (cos.argmax(1) == labels).float().mean().item(),
        "within": sim[same].mean().item() if same.any() else 0.0,
        "own_cosine": cos.gather(1, labels[:, None]).mean().item(),
    }


def build_optimizer(model):
    cutoffs = list(model.sinc.parameters())
    plain, decayed = [], []
    for n, p in model.named_parameters():
        if not n.startswith("sinc."):
            (plain if p.ndim == 1 else decayed).append(p)
    return torch.optim.AdamW([
        {"params": decayed, "weight_decay": 0.05},
        {"params": plain, "weight_decay": 0.0},
        {"params": cutoffs, "weight_decay": 0.0, "lr": 2e-4},
    ], lr=2e-3, betas=(0.9, 0.98))


def build_scheduler(optimizer):
    warm, total = BATCH * 2, EPOCHS * 14

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_step(model, optimizer, batch):
    model.train()
    wav, who = batch
    out = model(wav)
    value = loss(out, who)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return {"loss": value.detach(), "cos": out[0].detach().mean()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    with wave.open(str(path)) as w:
        x = torch.from_numpy(np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(np.float32) / 32768.0)
    chunks = torch.stack([prepare(c) for c in x.unfold(0, CHUNK, 400)])
    cos, emb = model(chunks)
    return {"speaker": int(cos.mean(0).argmax()), "cosines": cos.numpy(), "dvector": F.normalize(emb.mean(0), dim=0).numpy()}
