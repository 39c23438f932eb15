import torch
from torch import nn

from .calls import PASS

SMOOTH, PASS_WEIGHT, TRICK_SHARE = 0.1, 0.5, 0.25


def call_loss(logp, bid, legal):
    """Cross-entropy whose smoothing goes to legal calls alone; passes count half."""
    chosen = logp.gather(1, bid.unsqueeze(1)).squeeze(1)
    spread = logp.sum(1) / legal.sum(1)
    each = -(1 - SMOOTH) * chosen - SMOOTH * spread
    weight = torch.where(bid == PASS, PASS_WEIGHT, 1.0).to(logp.dtype)
    return (weight * each).sum() / weight.sum()


def trick_loss(logits, tricks):
    more = (tricks.unsqueeze(1) > torch.arange(13, device=tricks.device)).to(logits.dtype)
    return nn.functional.binary_cross_entropy_with_logits(logits, more, reduction="none").sum(1).mean()


def objective(outputs, labels):
    calls = call_loss(outputs["logp"], labels["bid"].long(), labels["legal"])
    tricks = trick_loss(outputs["tricks"], labels["tricks"].long())
    return {"loss": calls + TRICK_SHARE * tricks, "calls": calls, "tricks": tricks}
