"""The losses of the port."""

import paddle
from paddle.nn import functional as F


def contrast(outputs):
    """Every side against the joined batch of two workers; what came from the other worker has its gradient too."""
    logits = outputs["scale"] * paddle.matmul(outputs["seen"], outputs["read"], transpose_y=True)
    wanted = paddle.arange(len(logits))
    rows = F.cross_entropy(logits, wanted)
    columns = F.cross_entropy(logits.T, wanted)
    return (rows + columns) / 2


def focal(outputs, held):
    chance = F.sigmoid(outputs["objects"])
    entropy = F.binary_cross_entropy_with_logits(outputs["objects"], held, reduction="none")
    right = chance * held + (1 - chance) * (1 - held)
    alpha = 0.25 * held + 0.75 * (1 - held)
    return (alpha * (1 - right) ** 2 * entropy).sum() / held.sum().clip(min=1)


def overlap(outputs, held, wanted):
    centre, size = outputs["boxes"][..., :2], outputs["boxes"][..., 2:].exp()
    low, high = centre - size / 2, centre + size / 2
    inner = paddle.minimum(high, wanted[..., 2:]) - paddle.maximum(low, wanted[..., :2])
    inner = inner.clip(min=0).prod(-1)
    union = size.prod(-1) + (wanted[..., 2:] - wanted[..., :2]).prod(-1) - inner
    outer = (paddle.maximum(high, wanted[..., 2:]) - paddle.minimum(low, wanted[..., :2])).prod(-1)
    giou = inner / union - (outer - union) / outer
    return ((1 - giou) * held).sum() / held.sum()
