"""Permutation-invariant SI-SNR and friends."""
from itertools import permutations

import torch

from .config import TrainConfig

EPS = 1e-8


def si_snr(estimate, target):
    """Scale-invariant signal-to-noise ratio in dB over the last axis."""
    estimate = estimate - estimate.mean(dim=-1, keepdim=True)
    target = target - target.mean(dim=-1, keepdim=True)
    scale = (estimate * target).sum(-1, keepdim=True) / (target.pow(2).sum(-1, keepdim=True) + EPS)
    clean = scale * target
    noise = estimate - clean
    return 10 * torch.log10((clean.pow(2).sum(-1) + EPS) / (noise.pow(2).sum(-1) + EPS))


def best_order(estimates, targets):
    """Mean SI-SNR of the best assignment, and estimates brought into that order."""
    pairwise = si_snr(estimates.unsqueeze(2), targets.unsqueeze(1))  # (B, est, tgt)
    perms = torch.tensor(list(permutations(range(targets.shape[1]))), device=targets.device)
    cols = torch.arange(targets.shape[1], device=targets.device)
    scores = pairwise[:, perms, cols].mean(-1)  # (B, P): estimate perms[p, j] stands for target j
    best, which = scores.max(dim=1)
    index = perms[which].unsqueeze(-1).expand_as(estimates)
    return best, torch.gather(estimates, 1, index)


def spectral_distance(a, b):
    """L1 between log-compressed magnitudes, at three resolutions."""
    total = 0.0
    for n in (64, 256, 512):
        window = torch.hann_window(n, dtype=torch.float64, device=a.device).to(a.dtype)
        mags = []
        for x in (a, b):
            s = torch.stft(x.flatten(0, 1), n, n // 4, window=window, return_complex=True)
            mags.append(torch.log(1 + 10 * torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-7)))
        total = total + (mags[0] - mags[1]).abs().mean()
    return total / 3


def separation_loss(outputs, labels, cfg=TrainConfig()):
    best, ordered = best_order(outputs, labels)
    return -best.clamp(max=30).mean() + cfg.spectral_weight * spectral_distance(ordered, labels)


@torch.no_grad()
def evaluate(outputs, labels):
    outputs, labels = outputs.double(), labels.double()
    best, ordered = best_order(outputs, labels)
    mix = labels.sum(dim=1, keepdim=True).expand_as(labels)
    before = si_snr(mix, labels).mean(-1)
    err = (ordered - labels).pow(2).sum(-1)
    sdr = 10 * torch.log10((labels.pow(2).sum(-1) + EPS) / (err + EPS))
    scores = {"si_snri": (best - before).mean(), "sdr": sdr.mean(), "worst": sdr.min(dim=1).values.median()}
    return {name: value.float() for name, value in scores.items()}
