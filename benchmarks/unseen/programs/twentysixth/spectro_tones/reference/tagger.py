"""Audio tags from log-mel spectrograms; averaged weights for inference (PyTorch)."""
import wave
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
RATE, SAMPLES, N_FFT, HOP, MELS = 4000, 2000, 128, 64, 20
TAGS = ("hum", "chirp", "click", "beep")
POS_WEIGHT = (1.0, 1.8, 2.2, 4.0)
MICRO = 2
EMA_DECAY = 0.9


def mel_matrix():
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, MELS + 2) / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    bank = np.zeros((N_FFT // 2 + 1, MELS))
    for m in range(MELS):
        lo, mid, hi = edges[m:m + 3]
        bank[:, m] = np.maximum(0, np.minimum((freqs - lo) / (mid - lo), (hi - freqs) / (hi - mid)))
    return torch.tensor(bank, dtype=torch.float32)


class Clips(Dataset):
    def __init__(self, split):
        with np.load(DATA / "clips.npz") as z:
            pcm, tags = z["pcm"], z["tags"]
        part = slice(0, 112) if split == "train" else slice(112, None)
        self.wave = pcm[part].astype(np.float32) / 32768
        self.tags = tags[part].astype(np.float32)
        self.shift = split == "train"

    def __len__(self):
        return len(self.wave)

    def __getitem__(self, i):
        x = torch.from_numpy(self.wave[i])
        if self.shift:
            x = torch.roll(x, 37 * i % SAMPLES)
        return x, torch.from_numpy(self.tags[i])


class Frontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("mel", mel_matrix())
        self.log_gain = nn.Parameter(torch.zeros(MELS))

    def forward(self, x):
        spec = torch.stft(x, N_FFT, HOP, window=self.window, center=True, pad_mode="reflect", return_complex=True)
        power = spec.abs().pow(2).transpose(1, 2)                 # (batch, frames, bins)
        mel = torch.log1p(100.0 * power @ self.mel)
        mel = mel * self.log_gain.exp()
        mean = mel.mean(dim=(1, 2), keepdim=True)
        return (mel - mean) / (mel.std(dim=(1, 2), keepdim=True) + 1e-5)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = Frontend()
        self.conv1 = nn.Conv1d(MELS, 16, 5, padding=2)
        self.conv2 = nn.Conv1d(16, 16, 3, padding=1)
        self.act = nn.PReLU(16)
        self.norm = nn.LayerNorm(16)
        self.lstm = nn.LSTM(16, 10, batch_first=True, bidirectional=True)
        self.att = nn.Linear(20, len(TAGS), bias=False)      # a shift would not change the softmax
        self.cls = nn.Linear(20, len(TAGS))
        for name, p in self.lstm.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(p)
            elif "weight_ih" in name:
                nn.init.xavier_normal_(p)
            else:
                nn.init.zeros_(p)
                if "bias_ih" in name:
                    p.data[10:20] = 1.0                           # forget gate
        nn.init.constant_(self.cls.bias, -1.0)

    def forward(self, x):
        h = F.max_pool1d(self.act(self.conv1(self.front(x).transpose(1, 2))), 2, ceil_mode=True)
        h = self.norm((h + F.elu(self.conv2(h))).transpose(1, 2))
        h, _ = self.lstm(h)
        alpha = torch.softmax(self.att(h), dim=1)
        frame = self.cls(h)
        return {"clip": (alpha * frame).sum(1), "frame": frame, "attention": alpha}


class Averaged(nn.Module):
    """The network and the running average of its weights, kept as buffers."""

    def __init__(self):
        super().__init__()
        self.net = Tagger()
        for name, p in self.net.named_parameters():
            self.register_buffer("ema_" + name.replace(".", "_"), p.detach().clone())
        self.register_buffer("updates", torch.tensor(0))

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def update(self):
        self.updates += 1
        n = float(self.updates)
        d = min(EMA_DECAY, (1 + n) / (10 + n))
        for name, p in self.net.named_parameters():
            getattr(self, "ema_" + name.replace(".", "_")).lerp_(p, 1 - d)

    def averaged(self, x):
        weights = {n: getattr(self, "ema_" + n.replace(".", "_")) for n, _ in self.net.named_parameters()}
        return torch.func.functional_call(self.net, weights, (x,))


def build_model():
    return Averaged()


def build_dataset(split):
    return Clips(split)


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=8, shuffle=split == "train")


def loss(outputs, labels):
    pos = torch.tensor(POS_WEIGHT)
    bce = F.binary_cross_entropy_with_logits(outputs["clip"], labels, pos_weight=pos)
    sparse = -(outputs["attention"] * (outputs["attention"] + 1e-8).log()).sum(1).mean()
    smooth = (outputs["frame"].diff(dim=1) ** 2).mean()
    return {"loss": bce + 0.01 * sparse + 0.05 * smooth, "bce": bce, "attention": sparse}


def average_precision(score, y):
    order = torch.argsort(score, descending=True)
    y = y[order]
    precision = y.cumsum(0) / torch.arange(1, len(y) + 1)
    return (precision * y).sum().item() / y.sum().item()


@torch.no_grad()
def metric(outputs, labels):
    logit = outputs["clip"]
    guess = (logit > 0).float()
    tp = (guess * labels).sum(0)
    f1 = 2 * tp / (guess.sum(0) + labels.sum(0)).clamp(min=1)
    aps = [average_precision(logit[:, k], labels[:, k]) for k in range(len(TAGS)) if labels[:, k].any()]
    out = {f"f1_{t}": f1[k].item() for k, t in enumerate(TAGS)}
    out["map"] = sum(aps) / len(aps) if aps else 0.0
    out["hamming"] = (guess != labels).float().mean().item()
    out["subset"] = (guess == labels).all(1).float().mean().item()
    return out


def build_optimizer(model):
    return torch.optim.Adam(model.net.parameters(), lr=4e-3, betas=(0.9, 0.99), amsgrad=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=112, power=1.5)


def train_step(model, optimizer, batch):
    model.train()
    x, y = batch
    optimizer.zero_grad()
    total = 0.0
    for xs, ys in zip(x.chunk(MICRO), y.chunk(MICRO)):            # accumulate over micro-batches
        part = loss(model(xs), ys)["loss"] * (len(xs) / len(x))
        part.backward()
        total += part.item()
    norm = nn.utils.clip_grad_norm_(model.net.parameters(), 0.8)
    optimizer.step()
    model.update()
    return {"loss": total, "norm": norm.item()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    with wave.open(str(path), "rb") as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), dtype="<i2")
    prob = torch.sigmoid(model.averaged(torch.from_numpy(pcm.astype(np.float32) / 32768)[None])["clip"])[0]
    raw = torch.sigmoid(model(torch.from_numpy(pcm.astype(np.float32) / 32768)[None])["frame"])[0]
    return {"tags": prob.numpy(), "timeline": raw.numpy(), "best": TAGS[int(prob.argmax())], "seconds": [len(pcm) / RATE]}
