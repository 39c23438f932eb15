"""Organ tuning: how many cents a pipe is off, and how much its tone wobbles, from a tenth of a second of sound.

One file; the network is a chain of closures over a dict of parameters."""

import csv
import math
import os
import wave as wavefile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, LENGTH, FRAME, HOP = 8000, 768, 256, 128
RANKS = ["principal", "flute", "reed"]
HARMONICS, REACH, GRID = 6, 50.0, 41
WIDTH, TAPS, SLOPE = 16, 5, 0.2
FLOOR_KEEP, EPS = 0.9, 1e-3
SPREAD, BEND = 4.0, 5.0
BASE_RATE, LOW_RATE, FIRST_CYCLE, GROW = 4e-3, 1e-4, 8, 2
CLIP, SMALLEST = 0.04, 1e-3


# ---------------------------------------------------------------- the network

def cents_grid(like):
    return torch.linspace(-REACH, REACH, GRID, dtype=like.dtype, device=like.device)


def spectrum(p, floor):
    """wave -> log power of each frame above the usual floor, and the energies of the frames"""

    def run(wave):
        frames = (wave - wave.mean(-1, keepdim=True)).unfold(-1, FRAME, HOP) * p["window"]
        power = torch.fft.rfft(frames, dim=-1).abs().square()
        level = torch.log(power + EPS)
        return level - floor(level), torch.log(power.sum(-1) + EPS)

    return run


def moving_floor(buffer, training):
    """The running mean of the level at each frequency; it is moved by what training sees, after it was used."""

    def run(level):
        used = buffer.clone()
        if training:
            with torch.no_grad():
                buffer.mul_(FLOOR_KEEP).add_((1 - FLOOR_KEEP) * level.mean((0, 1)))
        return used

    return run


def comb(p):
    """Levels at the harmonics of a pipe that is off by each of the cents of the grid: B x T x harmonics x grid.
    Harmonics are stretched a little, each rank in its own way."""

    def run(level, pitch, rank):
        k = torch.arange(1, HARMONICS + 1, dtype=level.dtype, device=level.device)
        stretch = torch.sqrt(1 + (rank @ p["stretch"])[:, None] * k ** 2)
        shift = torch.pow(2.0, cents_grid(level) / 1200)
        place = (pitch[:, None] * k * stretch)[:, :, None] * shift * (FRAME / RATE)
        place = place.clamp(max=FRAME // 2 - 1e-3).flatten(1)
        low = place.detach().floor()
        part = (place - low).unsqueeze(1)
        at = low.long().unsqueeze(1).expand(-1, level.shape[1], -1)
        out = level.gather(2, at) * (1 - part) + level.gather(2, at + 1) * part
        return out.unflatten(2, (HARMONICS, GRID))

    return run


def over_frames(p):
    """Mean over the frames; loud and late ones count more."""

    def run(x, energy):
        share = torch.softmax(p["loudness"] * energy + p["late"], dim=1)
        return torch.einsum("bt,bthc->bhc", share, x)

    return run


def standardise(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.std(-1, keepdim=True, unbiased=False) + 1e-3)


def conv(p, name, groups=1):
    def run(x):
        w, b = p[name + "_w"], p[name + "_b"] if name + "_b" in p else None
        return F.conv1d(x, w, b, padding=w.shape[-1] // 2, groups=groups)

    return run


def leaky(x):
    return F.leaky_relu(x, SLOPE)


def skip(*steps):
    def run(x):
        y = x
        for step in steps:
            y = step(y)
        return x + y

    return run


def chain(*steps):
    def run(x):
        for step in steps:
            x = step(x)
        return x

    return run


def wobble_of(p):
    def run(energy, logits, celsius):
        logp = F.log_softmax(logits, dim=-1)
        doubt = -(logp.exp() * logp).sum(-1)
        facts = torch.stack([energy.std(-1), energy.diff(dim=-1).abs().mean(-1), doubt, celsius], dim=-1)
        return F.softplus(facts @ p["wobble_w"] + p["wobble_b"])

    return run


def tuner(p, buffer, training):
    hear, teeth, mean = spectrum(p, moving_floor(buffer, training)), comb(p), over_frames(p)
    read = chain(conv(p, "in"), leaky, skip(conv(p, "mid", groups=2), leaky, conv(p, "back")), leaky, conv(p, "out"))
    wobble = wobble_of(p)

    def run(wave, info):
        pitch, rank, celsius = info[:, 0], info[:, 1:4], info[:, 4]
        level, energy = hear(wave)
        x = standardise(mean(teeth(level, pitch, rank), energy))
        x = x * (HARMONICS * torch.softmax(rank @ p["colour"], dim=-1)).unsqueeze(-1)
        logits = read(x).squeeze(1) * torch.exp(p["sharpness"])
        cents = (logits.softmax(-1) * cents_grid(logits)).sum(-1)
        return {"logits": logits, "cents": cents, "wobble": wobble(energy, logits, celsius)}

    return run


class Tuner(nn.Module):
    def __init__(self):
        super().__init__()

        def weight(n_out, n_in, taps):
            return nn.init.kaiming_uniform_(torch.empty(n_out, n_in, taps), a=SLOPE, nonlinearity="leaky_relu")

        frames = (LENGTH - FRAME) // HOP + 1
        start = {
            "window": torch.hann_window(FRAME),
            "stretch": torch.full((len(RANKS),), 1e-4),
            "colour": torch.randn(len(RANKS), HARMONICS) * 0.1,
            "loudness": torch.tensor(0.5),
            "late": torch.linspace(-0.5, 0.5, frames),
            "in_w": weight(WIDTH, HARMONICS, TAPS), "in_b": torch.zeros(WIDTH),
            "mid_w": weight(WIDTH, WIDTH // 2, TAPS), "mid_b": torch.zeros(WIDTH),
            "back_w": weight(WIDTH, WIDTH, 1), "back_b": torch.zeros(WIDTH),
            "out_w": weight(1, WIDTH, TAPS),  # a bias would not change the softmax
            "sharpness": torch.tensor(0.0),
            "wobble_w": torch.randn(4) * 0.1, "wobble_b": torch.tensor(-0.5),
        }
        self.p = nn.ParameterDict({k: nn.Parameter(v) for k, v in start.items()})
        self.register_buffer("floor", torch.zeros(FRAME // 2 + 1))

    def forward(self, wave, info):
        return tuner(self.p, self.floor, self.training)(wave, info)


def build_model():
    return Tuner()


# ---------------------------------------------------------------- the data

def facts(rank, midi, celsius):
    """The pitch that the pipe should have in air of this temperature (tuned at 18 degrees), the rank, the temperature."""
    pitch = 440.0 * 2.0 ** ((midi - 69) / 12) * math.sqrt((273.15 + celsius) / (273.15 + 18.0))
    return np.array([pitch, *(float(rank == r) for r in RANKS), (celsius - 18.0) / 5.0], dtype=np.float32)


class Pipes(Dataset):
    def __init__(self, split):
        waves = np.load("data/waves.npy")
        with open("data/pipes.csv") as f:
            rows = list(csv.DictReader(f))
        keep = [i for i, r in enumerate(rows) if r["split"] == split]
        if split == "train":
            keep = list(np.random.RandomState(2).permutation(keep))
        self.samples = []
        for i in keep:
            r = rows[i]
            label = np.array([r["cents"], r["wobble"]], dtype=np.float32)
            wave = waves[i].astype(np.float32) / 32768
            self.samples.append((wave, facts(r["rank"], int(r["midi"]), float(r["celsius"])), label))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return tuple(torch.from_numpy(x) for x in self.samples[i])


def build_dataset(split):
    return Pipes(split)


def build_dataloader(split):
    return DataLoader(Pipes(split), batch_size=6, drop_last=split == "train")


# ---------------------------------------------------------------- loss, metric, training

def loss(outputs, labels):
    cents, wobble = labels[:, 0], labels[:, 1]
    grid = cents_grid(outputs["logits"])
    off = (grid - cents[:, None]) / SPREAD
    soft = torch.softmax(-0.5 * off ** 2, dim=-1)
    shape = F.cross_entropy(outputs["logits"], soft)
    place = F.huber_loss(outputs["cents"], cents, delta=BEND)
    x = outputs["wobble"] - wobble
    shake = (x + F.softplus(-2 * x) - math.log(2)).mean()  # log cosh
    return shape + 0.02 * place + 0.5 * shake


def metric(outputs, labels):
    off = (outputs["cents"] - labels[:, 0]).abs()
    both = torch.stack([outputs["wobble"], labels[:, 1]])
    return {"mae": off.mean(), "p90": torch.quantile(off, 0.9), "in_5": (off <= 5).to(off.dtype).mean(),
            "bias": (outputs["cents"] - labels[:, 0]).mean(), "wobble_r": torch.corrcoef(both)[0, 1]}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=BASE_RATE, betas=(0.9, 0.99), eps=1e-7, amsgrad=True)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, FIRST_CYCLE, GROW, eta_min=LOW_RATE)


@torch.no_grad()
def clip_units(params):
    """Adaptive clipping: the gradient of a unit is at most CLIP times as long as its weights."""
    for p in params:
        if p.ndim < 2:
            continue
        axes = tuple(range(1, p.ndim))
        size = p.square().sum(axes, keepdim=True).sqrt().clamp(min=SMALLEST)
        grad = p.grad.square().sum(axes, keepdim=True).sqrt()
        most = CLIP * size
        p.grad.mul_(torch.where(grad > most, most / grad.clamp(min=1e-6), torch.ones_like(grad)))


def train_step(model, optimizer, batch):
    wave, info, labels = batch
    model.train()
    optimizer.zero_grad()
    outputs = model(wave, info)
    value = loss(outputs, labels)
    value.backward()
    clip_units(model.parameters())
    optimizer.step()
    with torch.no_grad():
        window = model.p["window"]
        window.mul_(FRAME / 2 / window.sum())
    return {"loss": value.detach(), "cents": (outputs["cents"] - labels[:, 0]).abs().mean().detach()}


# ---------------------------------------------------------------- use

@torch.no_grad()
def predict(path, model):
    """A recording, by pieces of LENGTH; the name tells rank, note and temperature."""
    rank, midi, celsius = os.path.basename(path)[:-len(".wav")].split("_")
    with wavefile.open(path) as f:
        sound = np.frombuffer(f.readframes(f.getnframes()), dtype=np.int16).astype(np.float32) / 32768
    dtype = model.floor.dtype
    pieces = torch.from_numpy(sound).to(dtype).unfold(0, LENGTH, 512)
    info = torch.from_numpy(facts(rank, int(midi), float(celsius))).to(dtype).expand(len(pieces), -1)
    out = model(pieces, info)
    return {"cents": float(out["cents"].median()), "pieces": out["cents"].numpy(), "wobble": float(out["wobble"].mean())}
