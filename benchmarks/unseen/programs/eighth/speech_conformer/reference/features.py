"""From a signal to log-mel features, in numpy."""
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


def filters(c):
    """Triangles [mels, fft / 2 + 1], even on the mel scale."""
    edges = mel_to_hz(np.linspace(hz_to_mel(c.low), hz_to_mel(c.high), c.mels + 2))
    bins = np.arange(c.fft // 2 + 1) * c.rate / c.fft
    bank = np.zeros((c.mels, len(bins)))
    for m in range(c.mels):
        left, mid, right = edges[m : m + 3]
        up, down = (bins - left) / (mid - left), (right - bins) / (right - mid)
        bank[m] = np.maximum(0, np.minimum(up, down))
    return bank


def log_mel(signal, c):
    signal = np.append(signal[0], signal[1:] - c.preemphasis * signal[:-1])
    count = 1 + (len(signal) - c.window) // c.hop
    frames = np.stack([signal[i * c.hop : i * c.hop + c.window] for i in range(count)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(c.window) / c.window)
    power = np.abs(np.fft.rfft(frames * window, n=c.fft)) ** 2 / c.fft
    return np.log(np.maximum(power @ filters(c).T, c.floor))


def standardise(x):
    """Mean 0 and deviation 1 of every band over the utterance."""
    return (x - x.mean(axis=0)) / (x.std(axis=0, ddof=1) + 1e-5)


def frame_classes(classes, c, count):
    """The class at the middle of every frame."""
    return classes[np.arange(count) * c.hop + c.window // 2]


def mask_features(x, m):
    """SpecAugment: bands and times at which nothing is heard."""
    x = x.copy()
    for _ in range(m.bands):
        width = np.random.randint(0, m.widest_band + 1)
        start = np.random.randint(0, x.shape[1] - width + 1)
        x[:, start : start + width] = 0.0
    for _ in range(m.times):
        width = np.random.randint(0, m.widest_time + 1)
        start = np.random.randint(0, x.shape[0] - width + 1)
        x[start : start + width] = 0.0
    return x
