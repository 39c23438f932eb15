"""The right note before, smoothed over the allowed ones; no note follows two at once."""
import torch

from .windows import IGNORE

SMOOTH, CROWD = 0.1, 0.25


def link_loss(logp, open_, target):
    real = target != IGNORE
    right = logp.gather(-1, target.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    spread = (logp * open_).sum(dim=-1) / open_.sum(dim=-1)
    each = -((1 - SMOOTH) * right + SMOOTH * spread)
    return each[real].mean()


def crowding(logp, open_, target):
    """How far the chances to follow a note sum to more than one."""
    p = logp.exp() * open_ * (target != IGNORE).unsqueeze(-1)
    return torch.relu(p[..., 1:].sum(dim=1) - 1.0).square().sum(dim=-1).mean()


def total(outputs, target):
    return link_loss(outputs["logp"], outputs["open"], target) + CROWD * crowding(outputs["logp"], outputs["open"], target)
