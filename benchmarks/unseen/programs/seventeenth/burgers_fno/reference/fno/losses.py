import math

import torch


def relative_l2(pred, target):
    return (pred - target).norm(dim=-1) / target.norm(dim=-1)


def derivative(u):
    """Of a function with period 1, exact for its Fourier modes; the Nyquist mode has none."""
    n = u.shape[-1]
    k = torch.arange(n // 2 + 1, device=u.device, dtype=u.dtype)
    k[-1] = 0
    return torch.fft.irfft(torch.fft.rfft(u) * (2j * math.pi * k), n=n)


def sobolev_loss(pred, target, h1_weight):
    return (relative_l2(pred, target) + h1_weight * relative_l2(derivative(pred), derivative(target))).mean()


def band_errors(pred, target, bands):
    """RMSE of the spectral amplitudes of low, middle and high modes."""
    error = torch.fft.rfft(pred - target, norm="forward").abs() ** 2
    edges = (0, *bands, error.shape[-1])
    return [error[..., a:b].sum(-1).mean().sqrt() for a, b in zip(edges, edges[1:])]
