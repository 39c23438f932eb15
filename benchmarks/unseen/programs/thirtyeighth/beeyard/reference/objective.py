"""What training makes small."""
import torch
from torch.nn import functional as F

SCALE = 20.0
PATCH = 4


def pixel_term(density, truth):
    return ((SCALE * (density - truth)) ** 2).mean()


def patch_term(density, truth):
    """Counts of 4 x 4 patches, every second place."""
    mine = F.avg_pool2d(density, PATCH, stride=PATCH // 2) * PATCH ** 2
    right = F.avg_pool2d(truth, PATCH, stride=PATCH // 2) * PATCH ** 2
    return F.smooth_l1_loss(mine, right, beta=0.5)


def count_term(density, truth):
    mine, right = density.sum(dim=(1, 2, 3)), truth.sum(dim=(1, 2, 3))
    return ((mine - right).abs() / (right + 1.0)).mean()


def mask_term(logits, mask):
    """Rare bees weigh more, by the share of the batch that is empty."""
    positive = mask.sum()
    weight = (mask.numel() - positive) / (positive + 1.0)
    return F.binary_cross_entropy_with_logits(logits, mask, pos_weight=weight.clamp(max=20.0))


def total_loss(outputs, target):
    density, logits = outputs[:, :1], outputs[:, 1:]
    truth, mask = target[:, :1], target[:, 1:]
    return (
        pixel_term(density, truth)
        + patch_term(density, truth)
        + 0.1 * count_term(density, truth)
        + 0.3 * mask_term(logits, mask)
    )
