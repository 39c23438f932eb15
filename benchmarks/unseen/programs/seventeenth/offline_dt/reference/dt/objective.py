import torch
from torch.nn import functional as F


def advantage_weights(returns, mask, temperature, max_weight):
    """Steps with more return to go than the batch's mean count more; they sum to the number of steps."""
    count = mask.sum()
    mean = (returns * mask).sum() / count
    weights = torch.exp((returns - mean) / temperature).clamp(max=max_weight) * mask
    return weights * count / weights.sum()


def policy_loss(outputs, target, s):
    mask = target["mask"]
    weights = advantage_weights(target["returns"], mask, s.temperature, s.max_weight)
    squared = F.mse_loss(outputs["actions"], target["actions"], reduction="none").mean(-1)
    action = (squared * weights).sum() / mask.sum()
    huber = F.smooth_l1_loss(outputs["returns"], target["following"], reduction="none", beta=s.huber_beta)
    future = (huber * mask).sum() / mask.sum()
    return {"loss": action + s.return_weight * future, "action": action, "return": future}


@torch.no_grad()
def policy_metric(outputs, target):
    mask = target["mask"].bool()
    pred, truth = outputs["actions"][mask], target["actions"][mask]
    residual = ((pred - truth) ** 2).sum(0)
    total = ((truth - truth.mean(0)) ** 2).sum(0)
    error = (outputs["actions"] - target["actions"]).abs().mean(-1)
    per_window = (error * target["mask"]).sum(1) / target["mask"].sum(1)
    return {
        "mae": (pred - truth).abs().mean(),
        "mae_window": per_window.mean(),
        "r2": (1 - residual / total).mean(),
        "direction": F.cosine_similarity(pred, truth, dim=-1, eps=1e-6).mean(),
        "return_rmse": ((outputs["returns"] - target["following"])[mask] ** 2).mean().sqrt(),
    }
