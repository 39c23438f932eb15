"""Audio reading and log-mel features (numpy only)."""
import csv
import wave
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True)
class FrontConfig:
    rate: int = 4000
    frame: int = 128
    hop: int = 64
    bands: int = 16
    low: float = 60.0
    high: float = 1900.0
    emphasis: float = 0.97
    floor: float = 1e-8


FRONT = FrontConfig()


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


@lru_cache(maxsize=None)
def hann(n):
    k = np.arange(n)
    return 0.5 - 0.5 * np.cos(2.0 * np.pi * k / n)


@lru_cache(maxsize=None)
def dft_basis(n):
    k = np.arange(n // 2 + 1)[:, None] * np.arange(n)[None, :]
    angle = -2.0 * np.pi * k / n
    return np.cos(angle), np.sin(angle)


@lru_cache(maxsize=None)
def filters(cfg):
    points = np.linspace(hz_to_mel(cfg.low), hz_to_mel(cfg.high), cfg.bands + 2)
    corners = [float(mel_to_hz(m)) for m in points]
    bins = [k * cfg.rate / cfg.frame for k in range(cfg.frame // 2 + 1)]
    table = np.zeros((cfg.bands, len(bins)))
    for b in range(cfg.bands):
        left, centre, right = corners[b : b + 3]
        height = 2.0 / (right - left)
        for k, f in enumerate(bins):
            if left < f <= centre:
                table[b, k] = height * (f - left) / (centre - left)
            elif centre < f < right:
                table[b, k] = height * (right - f) / (right - centre)
    return table


def load(path):
    with wave.open(str(path), "rb") as w:
        pcm = np.frombuffer(w.readframes(w.getnframes()), dtype=np.int16)
    return pcm / 32768.0


def features(signal, cfg=FRONT):
    boosted = signal.copy()
    boosted[1:] -= cfg.emphasis * signal[:-1]
    re, im = dft_basis(cfg.frame)
    columns = []
    start = 0
    while start + cfg.frame <= len(boosted):
        piece = boosted[start : start + cfg.frame] * hann(cfg.frame)
        power = ((re @ piece) ** 2 + (im @ piece) ** 2) / cfg.frame
        columns.append(np.log(np.maximum(filters(cfg) @ power, cfg.floor)))
        start += cfg.hop
    mat = np.stack(columns, axis=-1)
    for row in mat:
        row -= row.mean()
        row /= np.sqrt(np.mean(row ** 2)) + 1e-5
    return mat.astype("float32")


@lru_cache(maxsize=None)
def listing():
    with open(ROOT / "manifest.csv", newline="") as handle:
        rows = list(csv.reader(handle))
    return tuple((f, who, part) for f, who, part in rows[1:])


def roster():
    return sorted(set(who for _, who, _ in listing()))
