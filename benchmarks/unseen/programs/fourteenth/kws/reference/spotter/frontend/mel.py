import math

import torch
import torch.nn.functional as F


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_filters(n_fft, n_mels, sample_rate, f_min, f_max):
    freqs = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1, dtype=torch.float64)
    mels = torch.linspace(hz_to_mel(f_min), hz_to_mel(f_max), n_mels + 2, dtype=torch.float64)
    points = mel_to_hz(mels)
    bank = torch.zeros(n_mels, n_fft // 2 + 1, dtype=torch.float64)
    for m in range(n_mels):
        lo, mid, hi = points[m], points[m + 1], points[m + 2]
        up = (freqs - lo) / (mid - lo)
        down = (hi - freqs) / (hi - mid)
        bank[m] = torch.clamp(torch.minimum(up, down), min=0) * (2.0 / (hi - lo))
    return bank


class LogMel:
    """(samples,) -> (n_mels, frames)"""

    def __init__(self, cfg):
        self.cfg = cfg
        self.window = torch.hann_window(cfg.win, dtype=torch.float64)
        # area-normalised triangles, scaled so that levels stay around one
        self.bank = mel_filters(cfg.n_fft, cfg.n_mels, cfg.sample_rate, cfg.f_min, cfg.f_max) * 100.0

    def __call__(self, wave):
        cfg = self.cfg
        wave = wave.double()
        wave = torch.cat([wave[:1], wave[1:] - cfg.preemph * wave[:-1]])
        pad = cfg.n_fft // 2
        wave = F.pad(wave[None, None], (pad, pad), mode="reflect")[0, 0]
        frames = wave.unfold(0, cfg.n_fft, cfg.hop)
        left = (cfg.n_fft - cfg.win) // 2
        window = F.pad(self.window, (left, cfg.n_fft - cfg.win - left))
        spec = torch.fft.rfft(frames * window, n=cfg.n_fft)
        power = spec.real ** 2 + spec.imag ** 2
        return torch.log(self.bank @ power.t() + cfg.floor)


class Standardize:
    def __call__(self, feats):
        mean = feats.mean(dim=1, keepdim=True)
        std = feats.std(dim=1, keepdim=True)
        return ((feats - mean) / (std + 1e-3)).float()
