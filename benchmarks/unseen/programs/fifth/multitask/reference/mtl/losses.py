import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import LOSSES


@LOSSES.register
class Focal(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, z, y):
        ce = F.binary_cross_entropy_with_logits(z, y, reduction="none")
        p_t = torch.exp(-ce).detach()                    # the focus is a weight, not a path for the gradient
        a_t = self.alpha * y + (1 - self.alpha) * (1 - y)
        return (a_t * (1 - p_t) ** self.gamma * ce).mean()


@LOSSES.register
class MaskedBCE(nn.Module):
    def __init__(self, ignore):
        super().__init__()
        self.ignore = ignore

    def forward(self, z, y):
        known = y != self.ignore
        return F.binary_cross_entropy_with_logits(z[known], y[known])


@LOSSES.register
class SmoothL1(nn.SmoothL1Loss):
    pass


class TaskSum(nn.Module):
    """homoscedastic weighting (Kendall et al.)"""

    def __init__(self, cfg):
        super().__init__()
        self.parts = nn.ModuleDict({k: LOSSES.build(c) for k, c in cfg.items()})

    def forward(self, out, batch):
        res = {k: f(out[k], batch[k]) for k, f in self.parts.items()}
        s = out["log_vars"]
        res["loss"] = sum(torch.exp(-s[i]) * res[k] + 0.5 * s[i] for i, k in enumerate(self.parts))
        return res
