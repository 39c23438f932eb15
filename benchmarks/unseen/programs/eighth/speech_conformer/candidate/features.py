"""From a signal to log-mel features, in numpy."""
from functools import lru_cache

import numpy as np

FORMANTS = {1: (400, 1900), 2: (650, 1200), 3: (300, 2300), 4: (900, 1500), 5: (500, 3000), 6: (750, 2600)}


def utterance(seed, rate):
    """A signal of vowels with pauses, and the class of every sample (0: pause)."""
    draw = np.random.RandomState(seed)
    signal, classes = [], []
    for _ in range(draw.randint(3, 6)):
        which = int(draw.randint(1, 7))
        length = int(draw.uniform(0.07, 0.14) * rate)
        t = np.arange(length) / rate
        pitch = draw.uniform(0.97, 1.03)
        wave = sum(np.sin(2 * np.pi * f * pitch * t + draw.uniform(0, 6)) * g for f, g in zip(FORMANTS[which], (1.0, 0.6)))
        pause = int(draw.uniform(0.02, 0.05) * rate)
        signal += [wave * np.hanning(length) ** 0.3, np.zeros(pause)]
        classes += [np.full(length, which), np.zeros(pause, int)]
    signal = np.concatenate(signal)
    return signal + 0.02 * draw.normal(size=len(signal)), np.concatenate(classes).astype("int64")


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + np.asarray(f) / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (np.asarray(m) / 2595.0) - 1.0)


@lru_cache(maxsize=None)
def filters(c):
    """Triangles [fft / 2 + 1, mels], even on the mel scale."""
    edges = mel_to_hz(np.linspace(hz_to_mel(c.low), hz_to_mel(c.high), c.mels + 2))
    bins = (np.arange(c.fft // 2 + 1) * c.rate / c.fft)[:, None]
    left, mid, right = edges[:-2], edges[1:-1], edges[2:]
    up = (bins - left) / (mid - left)
    down = (right - bins) / (right - mid)
    return np.clip(np.minimum(up, down), 0, None)


def log_mel(signal, c):
    signal = np.append(signal[:1], signal[1:] - c.preemphasis * signal[:-1])
    frames = np.lib.stride_tricks.sliding_window_view(signal, c.window)[:: c.hop]
    window = np.hanning(c.window + 1)[:-1]
    spectrum = np.fft.rfft(frames * window, n=c.fft, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2) / c.fft
    return np.log(np.maximum(power @ filters(c), c.floor))


def standardise(x):
    """Mean 0 and deviation 1 of every band over the utterance."""
    return (x - x.mean(axis=0)) / (x.std(axis=0, ddof=1) + 1e-5)


def frame_classes(classes, c, count):
    """The class at the middle of every frame."""
    middle = np.arange(count) * c.hop + c.window // 2
    return np.take(classes, middle)


def mask_features(x, m):
    """SpecAugment: bands and times at which nothing is heard."""
    keep = np.ones(x.shape, dtype=bool)
    for axis, number, widest in ((1, m.bands, m.widest_band), (0, m.times, m.widest_time)):
        for _ in range(number):
            width = np.random.randint(0, widest + 1)
            start = np.random.randint(0, x.shape[axis] - width + 1)
            if axis == 1:
                keep[:, start : start + width] = False
            else:
                keep[start : start + width] = False
    return np.where(keep, x, 0.0)
