"""Likelihood of the tracks and what is reported about them."""
import math

import torch
import torch.nn.functional as F

from .config import CFG


def nll(outputs, target):
    """beta-NLL (Seitzer et al.) over the known queries; the variance is clamped from below."""
    mean, var = outputs.unbind(-1)
    truth, known = target.unbind(-1)
    each = F.gaussian_nll_loss(mean, truth, var, eps=CFG.var_floor, reduction="none")
    each = each * var.detach().clamp(min=CFG.var_floor) ** CFG.beta_nll
    smooth = ((mean[:, 1:] - mean[:, :-1]) ** 2).mean()
    return (each * known).sum() / known.sum().clamp(min=1) + 0.01 * smooth


def report(outputs, target):
    mean, var = outputs.unbind(-1)
    truth, known = target.unbind(-1)
    known = known.bool()
    err = (mean - truth)[known]
    std = var.clamp(min=CFG.var_floor).sqrt()[known]
    z = err / std
    phi = torch.exp(-0.5 * z ** 2) / math.sqrt(2 * math.pi)
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    crps = std * (z * (2 * cdf - 1) + 2 * phi - 1 / math.sqrt(math.pi))
    return {
        "rmse": err.pow(2).mean().sqrt(),
        "mae_median": err.abs().quantile(0.5),
        "cover90": (z.abs() <= 1.6449).float().mean(),
        "crps": crps.mean(),
    }
