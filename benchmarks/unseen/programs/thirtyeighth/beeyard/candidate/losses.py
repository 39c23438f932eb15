"""Four terms of the loss."""
import paddle.nn.functional as F


def per_pixel(density, wanted, scale=20.0):
    return F.mse_loss(scale * density, scale * wanted)


def per_patch(density, wanted, side=4, knee=0.5):
    """Smooth L1 of the counts of overlapping patches; Paddle's is Huber's, `knee` times as large."""
    mine, right = (side * side * F.avg_pool2d(x, side, stride=side // 2) for x in (density, wanted))
    return F.smooth_l1_loss(mine, right, delta=knee) / knee


def per_photo(density, wanted):
    right = wanted.flatten(1).sum(axis=1)
    return ((density.flatten(1).sum(axis=1) - right).abs() / (1.0 + right)).mean()


def of_mask(logits, mask):
    bees = mask.sum()
    weight = ((mask.size - bees) / (1.0 + bees)).clip(max=20.0)
    return F.binary_cross_entropy_with_logits(logits, mask, pos_weight=weight)


def whole(outputs, truth):
    density, logits = outputs.split(2, axis=1)
    wanted, mask = truth.split(2, axis=1)
    counts = per_pixel(density, wanted) + per_patch(density, wanted) + 0.1 * per_photo(density, wanted)
    return counts + 0.3 * of_mask(logits, mask)
