"""Audio front end in numpy."""
import numpy as np


def _mel(f):
    return 2595.0 * np.log10(1.0 + np.asarray(f) / 700.0)


def _inverse_mel(m):
    return 700.0 * (np.power(10.0, np.asarray(m) / 2595.0) - 1.0)


def filterbank(a):
    """Shape (n_mels, n_fft / 2 + 1)."""
    bins = np.arange(a.n_fft // 2 + 1) * a.sample_rate / a.n_fft
    points = _inverse_mel(np.linspace(_mel(a.f_min), _mel(a.f_max), a.n_mels + 2))
    bank = np.zeros((a.n_mels, bins.size))
    for m in range(a.n_mels):
        left, centre, right = points[m:m + 3]
        rise = (bins - left) / (centre - left)
        fall = (right - bins) / (right - centre)
        bank[m] = np.maximum(0.0, np.minimum(rise, fall))
        bank[m] *= 2.0 / (right - left)
    return bank


def power_spectrum(y, a):
    y = np.append(y[0], y[1:] - a.pre_emphasis * y[:-1])
    y = np.pad(y, a.n_fft // 2, mode="reflect")
    count = 1 + (len(y) - a.n_fft) // a.hop_length
    index = np.arange(a.n_fft)[None, :] + a.hop_length * np.arange(count)[:, None]
    n = np.arange(a.n_fft)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / a.n_fft)
    spec = np.fft.rfft(y[index] * hann, axis=1)
    return spec.real ** 2 + spec.imag ** 2


def to_db(mel_power, a):
    db = 10.0 * np.log10(np.maximum(mel_power, a.amin))
    return np.maximum(db, db.max() - a.top_db)


def regression_delta(x, order):
    """Slope over 2 * order + 1 frames, along the first axis."""
    ext = np.pad(x, ((order, order), (0, 0)), mode="edge")
    frames = len(x)
    num = np.zeros_like(x)
    for k in range(1, order + 1):
        num += k * (ext[order + k:order + k + frames] - ext[order - k:order - k + frames])
    return num / (2.0 * sum(k ** 2 for k in range(1, order + 1)))


def shape_of_spectrum(p):
    p = p + 1e-10
    axis = np.linspace(0.0, 1.0, p.shape[1])
    norm = p / p.sum(axis=1, keepdims=True)
    mu = norm @ axis
    sigma = np.sqrt((norm * (axis[None] - mu[:, None]) ** 2).sum(axis=1))
    tonality = np.exp(np.mean(np.log(p), axis=1)) / np.mean(p, axis=1)
    return np.stack([mu, sigma, tonality], axis=1)


class Analyzer:
    def __init__(self, audio):
        self.audio = audio
        self.bank = filterbank(audio)

    def analyze(self, pcm):
        y = pcm.astype("float64") / 32768.0
        p = power_spectrum(y, self.audio)
        db = to_db(p @ self.bank.T, self.audio)
        return np.stack([db, regression_delta(db, self.audio.delta_order)]), shape_of_spectrum(p)
