import wave
from functools import lru_cache

import numpy as np


def read_pcm(path, rate):
    with wave.open(str(path)) as w:
        if w.getframerate() != rate:
            raise ValueError(f"{path}: expected {rate} Hz")
        data = w.readframes(w.getnframes())
    return np.frombuffer(data, "<i2").astype("float32") / 32768.0


def centre(x, length):
    missing = length - len(x)
    if missing > 0:
        before = missing // 2
        return np.pad(x, (before, missing - before))
    cut = -missing // 2
    return x[cut:cut + length]


@lru_cache(maxsize=None)
def _window(frame, fft):
    n = np.arange(frame)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / frame)
    before = (fft - frame) // 2
    return np.pad(hann, (before, fft - frame - before))


@lru_cache(maxsize=None)
def _triangles(fft, bands, rate, low, high):
    to_mel = lambda f: 2595.0 * np.log10(1.0 + f / 700.0)
    edges = 700.0 * (10.0 ** (np.linspace(to_mel(low), to_mel(high), bands + 2) / 2595.0) - 1.0)
    freqs = np.linspace(0.0, rate / 2, fft // 2 + 1)
    rising = (freqs[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - freqs[None]) / np.diff(edges)[1:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return np.maximum(np.minimum(rising, falling), 0.0) * area[:, None]


def log_bands(x, cfg):
    x = np.asarray(x, "float64")
    x = np.concatenate([x[:1], x[1:] - cfg.emphasis * x[:-1]])
    x = np.pad(x, cfg.fft // 2, mode="reflect")
    count = 1 + (len(x) - cfg.fft) // cfg.step
    index = np.arange(cfg.fft)[None] + cfg.step * np.arange(count)[:, None]
    spectrum = np.fft.rfft(x[index] * _window(cfg.frame, cfg.fft), axis=1)
    power = np.abs(spectrum) ** 2
    bank = cfg.gain * _triangles(cfg.fft, cfg.bands, cfg.rate, cfg.low_hz, cfg.high_hz)
    return np.log(bank @ power.T + cfg.floor)


def normalise(f):
    mu = f.mean(axis=1, keepdims=True)
    sd = f.std(axis=1, keepdims=True, ddof=1)
    return ((f - mu) / (sd + 1e-3)).astype("float32")


def features(x, cfg):
    return normalise(log_bands(x, cfg))
