import numpy as np

SR = 8000


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filterbank(n_mels=20, n_fft=256, fmin=60.0, fmax=3800.0):
    edges = mel_to_hz(np.linspace(hz_to_mel(fmin), hz_to_mel(fmax), n_mels + 2))
    freqs = np.fft.rfftfreq(n_fft, 1.0 / SR)
    fb = np.zeros((n_mels, len(freqs)))
    for m in range(n_mels):
        lo, mid, hi = edges[m:m + 3]
        up = (freqs - lo) / (mid - lo)
        down = (hi - freqs) / (hi - mid)
        fb[m] = np.maximum(0.0, np.minimum(up, down)) * 2.0 / (hi - lo)
    return fb


def log_mel(wave, win=200, hop=80, n_fft=256, preemph=0.97):
    x = np.append(wave[0], wave[1:] - preemph * wave[:-1])
    n = 1 + (len(x) - win) // hop
    idx = np.arange(win)[None] + hop * np.arange(n)[:, None]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(win) / win)
    spec = np.abs(np.fft.rfft(x[idx] * window, n_fft)) ** 2
    mel = np.log(np.maximum(spec @ mel_filterbank().T, 1e-10))
    return (mel - mel.mean(0)) / (mel.std(0) + 1e-5)
