"""log-mel features without torchaudio"""
import numpy as np
import torch
from torch import nn


def hz_to_mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(sr, n_fft, n_mels, fmin, fmax):
    """triangles of equal area, [n_mels, n_fft // 2 + 1]"""
    freqs = np.linspace(0, sr / 2, n_fft // 2 + 1)
    edges = mel_to_hz(np.linspace(hz_to_mel(fmin), hz_to_mel(fmax), n_mels + 2))
    bank = np.zeros((n_mels, len(freqs)))
    for m in range(n_mels):
        lo, mid, hi = edges[m:m + 3]
        for k, f in enumerate(freqs):
            bank[m, k] = max(0.0, min((f - lo) / (mid - lo), (hi - f) / (hi - mid)))
        bank[m] *= 2.0 / (hi - lo)
    return bank


class LogMel(nn.Module):
    def __init__(self, sr=8000, n_fft=256, win=200, hop=80, n_mels=24, fmin=60.0, fmax=3800.0, top_db=60.0):
        super().__init__()
        self.n_fft, self.win, self.hop, self.top_db = n_fft, win, hop, top_db
        self.window = torch.hann_window(win, periodic=True, dtype=torch.float64)
        self.bank = torch.from_numpy(mel_filters(sr, n_fft, n_mels, fmin, fmax))

    def forward(self, wave):
        """[B, N] -> [B, n_mels, frames], decibels, then each band to mean 0 and standard deviation 1 over time"""
        window, bank = self.window.to(wave), self.bank.to(wave)
        spec = torch.stft(wave, self.n_fft, self.hop, self.win, window, center=True, pad_mode="reflect", return_complex=True)
        power = spec.real ** 2 + spec.imag ** 2
        mel = torch.matmul(bank, power)
        db = 10.0 * torch.log10(mel.clamp(min=1e-10))
        db = torch.maximum(db, db.amax(dim=(1, 2), keepdim=True) - self.top_db)
        return (db - db.mean(-1, keepdim=True)) / (db.std(-1, keepdim=True) + 1e-3)
