import math

import torch

LOG_2PI = math.log(2 * math.pi)


def component_log_prob(out, y):
    """log N(y; mu_k, P_k^-1) with P = L L^T, so that |L^T (y - mu)|^2 is the Mahalanobis distance."""
    delta = y[:, None, :] - out["mu"]
    d0, d1 = out["diag"].unbind(-1)
    z0 = d0 * delta[..., 0] + out["off"] * delta[..., 1]
    z1 = d1 * delta[..., 1]
    return -0.5 * (z0**2 + z1**2) - LOG_2PI + d0.log() + d1.log()


def log_prob(out, y):
    return torch.logsumexp(out["log_pi"] + component_log_prob(out, y), dim=-1)


def mdn_loss(out, y, entropy_weight=0.05, prior_weight=1e-3):
    nll = -log_prob(out, y).mean()
    mean_pi = out["log_pi"].exp().mean(0)
    neg_entropy = (mean_pi * mean_pi.clamp_min(1e-12).log()).sum()
    prior = out["mu"].pow(2).sum(-1).mean()
    return nll + entropy_weight * neg_entropy + prior_weight * prior


def mixture_moments(out):
    """Mean and variance of each of the two targets under the mixture."""
    pi = out["log_pi"].exp()[..., None]
    d0, d1 = out["diag"].unbind(-1)
    # inverse of L L^T with L = [[d0, 0], [off, d1]]
    var0 = (out["off"] ** 2 + d1**2) / (d0 * d1) ** 2
    var1 = 1 / d1**2
    mean = (pi * out["mu"]).sum(1)
    second = (pi * (torch.stack([var0, var1], -1) + out["mu"] ** 2)).sum(1)
    return mean, second - mean**2


@torch.no_grad()
def evaluate(out, y):
    mean, var = mixture_moments(out)
    z = (y - mean) / var.sqrt()
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    pdf = torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    crps = var.sqrt() * (z * (2 * cdf - 1) + 2 * pdf - 1 / math.sqrt(math.pi))
    return {
        "nll": -log_prob(out, y).mean(),
        "rmse": (y - mean).pow(2).mean(0).sqrt().mean(),
        "coverage90": (z.abs() <= 1.6449).to(y.dtype).mean(),
        "crps": crps.mean(),
        "used": torch.exp(-(out["log_pi"].exp() * out["log_pi"]).sum(-1)).mean(),
    }
