import torch
import torch.nn.functional as F

from .stitches import ADDS, NONE

GAMMA = 1.5
COUNT, NET = 2.0, 0.1


def focal(logits, target):
    """Cross entropy in which stitches that are easy already weigh less; the weight itself is not learned from."""
    each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none", ignore_index=NONE)
    there = target != NONE
    weight = (1 - torch.exp(-each.detach())) ** GAMMA
    return (weight * each)[there].sum() / there.sum()


def knit_loss(outputs, target):
    logits, net = outputs
    adds = torch.tensor(ADDS, dtype=logits.dtype, device=logits.device)
    expected = (logits.softmax(-1) @ adds).mean(-1)
    true = adds[target].mean(-1)
    count = F.huber_loss(expected, true, delta=0.1)
    return focal(logits, target) + COUNT * count + NET * F.mse_loss(net, true * target.shape[1])
