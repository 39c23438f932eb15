import torch
from torch.nn import functional as F


def focal(logits, labels, gamma, alpha):
    """Lin et al. 2017: what is already right counts less; `alpha` is the weight of class 1."""
    y = labels.to(logits.dtype)
    each = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    right = torch.exp(-each)
    weight = alpha * y + (1 - alpha) * (1 - y)
    return (weight * (1 - right) ** gamma * each).sum() / weight.sum()


def objective(outputs, labels, c):
    main = focal(outputs["logits"], labels, c.gamma, c.alpha)
    large = c.penalty * outputs["logits"].square().mean()
    return {"loss": main + large, "focal": main, "penalty": large}
