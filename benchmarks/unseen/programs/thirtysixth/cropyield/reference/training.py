"""Losses, optimizers and schedules that the config can name."""
import math

import torch
from torch import nn

from .registry import LOSSES, OPTIMIZERS, SCHEDULES


@LOSSES.register("beta_nll")
class BetaNLL:
    """Gaussian NLL weighted by variance**beta (no gradient through the weight), and a pinball term."""

    def __init__(self, beta, pinball, quantile):
        self.beta, self.pinball, self.quantile = beta, pinball, quantile
        self.z = math.sqrt(2.0) * float(torch.erfinv(torch.tensor(2.0 * quantile - 1.0, dtype=torch.float64)))

    def __call__(self, outputs, labels):
        mean, scale = outputs["mean"], outputs["scale"]
        labels = labels.to(mean.dtype)
        variance = scale**2
        nll = 0.5 * (torch.log(variance) + (labels - mean) ** 2 / variance)
        weighted = (nll * variance.detach() ** self.beta).mean()
        low = labels - (mean + self.z * scale)
        pinball = torch.maximum(self.quantile * low, (self.quantile - 1.0) * low).mean()
        return weighted + self.pinball * pinball


@OPTIMIZERS.register("adamw")
def adamw(model, lr, betas, eps, weight_decay, query_lr_scale):
    decay, plain, queries = [], [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.Embedding):
                queries.append(parameter)
            elif name == "weight" and parameter.dim() > 1:
                decay.append(parameter)
            else:
                plain.append(parameter)
    groups = [
        {"params": decay, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": queries, "weight_decay": 0.0, "lr": lr * query_lr_scale},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=tuple(betas), eps=eps)


@SCHEDULES.register("warmup_cosine")
def warmup_cosine(optimizer, warmup, total, floor):
    peak = optimizer.defaults["lr"]

    def factor(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min(1.0, (step - warmup) / (total - warmup))
        return (floor + 0.5 * (peak - floor) * (1.0 + math.cos(math.pi * done))) / peak

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
