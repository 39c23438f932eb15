"""Spectral features by hand: log-mel with deltas, and three descriptors of a frame."""
import math

import torch
import torch.nn.functional as F

from .settings import S


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_matrix(rate, window, bands, low, high):
    """[window // 2 + 1, bands], triangles of equal area."""
    freqs = torch.linspace(0, rate / 2, window // 2 + 1, dtype=torch.float64)
    a, b = hz_to_mel(low), hz_to_mel(high)
    edges = torch.tensor([mel_to_hz(a + (b - a) * i / (bands + 1)) for i in range(bands + 2)], dtype=torch.float64)
    up = (freqs[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[None, 2:] - freqs[:, None]) / (edges[2:] - edges[1:-1])
    tri = torch.clamp(torch.minimum(up, down), min=0.0)
    return tri * (2.0 / (edges[2:] - edges[:-2]))


class Features:
    def __init__(self, cfg=S.features):
        self.cfg = cfg
        self.window = torch.hann_window(cfg.window, periodic=True, dtype=torch.float64)
        self.mel = mel_matrix(cfg.rate, cfg.window, cfg.bands, cfg.low, cfg.high)

    def power(self, wave):
        c = self.cfg
        wave = torch.cat([wave[:1], wave[1:] - c.preemphasis * wave[:-1]])
        half = c.window // 2
        wave = F.pad(wave[None, None], (half, half), mode="reflect")[0, 0]
        frames = wave.unfold(0, c.window, c.hop) * self.window
        return torch.fft.rfft(frames, dim=-1).abs() ** 2          # [T, F]

    def log_mel(self, power):
        c = self.cfg
        level = 10.0 * torch.log10(torch.clamp(power @ self.mel, min=c.floor))
        return torch.maximum(level, level.max() - c.range_db)

    def delta(self, level):
        n = self.cfg.delta_width
        padded = F.pad(level.T[None], (n, n), mode="replicate")[0].T
        total = sum(k * (padded[n + k: n + k + len(level)] - padded[n - k: n - k + len(level)]) for k in range(1, n + 1))
        return total / (2 * sum(k * k for k in range(1, n + 1)))

    def descriptors(self, power):
        c = self.cfg
        power = power + 1e-10
        freqs = torch.linspace(0, 1, power.shape[1], dtype=power.dtype)
        share = power / power.sum(-1, keepdim=True)
        centroid = (share * freqs).sum(-1)
        spread = ((share * (freqs - centroid[:, None]) ** 2).sum(-1)).sqrt()
        flatness = power.log().mean(-1).exp() / power.mean(-1)
        return torch.stack([centroid, spread, flatness], -1)

    def __call__(self, wave):
        power = self.power(wave)
        level = self.log_mel(power)
        return torch.stack([level, self.delta(level)]), self.descriptors(power)
