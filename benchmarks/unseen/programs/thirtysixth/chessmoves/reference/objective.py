import torch
from torch.nn import functional as F

from .moves import WIDTH


def parts(targets):
    return targets[:, :WIDTH], targets[:, WIDTH : WIDTH + 3], targets[:, WIDTH + 3]


def total_loss(outputs, targets):
    policy, wdl, left = parts(targets.to(outputs["wdl"].dtype))
    by_policy = -(policy * outputs["policy"]).sum(dim=1).mean()
    by_value = F.cross_entropy(outputs["wdl"], wdl)
    by_left = F.huber_loss(outputs["left"], left, delta=0.5)
    return {"loss": by_policy + 0.8 * by_value + 0.3 * by_left, "policy": by_policy, "value": by_value, "left": by_left}


def scores(outputs, targets):
    """Agreement with the most visited move, its mean reciprocal rank, Brier score, error in plies."""
    policy, wdl, left = parts(targets.to(outputs["wdl"].dtype))
    legal = outputs["policy"] < 0
    guess = outputs["policy"].masked_fill(~legal, float("-inf"))
    best = policy.argmax(dim=1, keepdim=True)
    rank = 1 + (guess > guess.gather(1, best)).sum(dim=1)
    brier = ((outputs["wdl"].softmax(dim=1) - wdl) ** 2).sum(dim=1)
    return {
        "agreement": (rank == 1).double().mean().item(),
        "reciprocal_rank": (1.0 / rank.double()).mean().item(),
        "brier": brier.mean().item(),
        "plies": (40.0 * (outputs["left"] - left).abs()).mean().item(),
    }
