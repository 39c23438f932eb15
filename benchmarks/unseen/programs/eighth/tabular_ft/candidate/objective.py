import paddle
import paddle.nn.functional as F


def focal(logits, labels, gamma, alpha):
    """Lin et al. 2017: what is already right counts less; `alpha` is the weight of class 1."""
    y = labels.astype(logits.dtype)
    each = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    right = paddle.exp(-each)
    weight = paddle.where(y > 0.5, paddle.full_like(y, alpha), paddle.full_like(y, 1 - alpha))
    return (weight * (1 - right).pow(gamma) * each).sum() / weight.sum()


def objective(outputs, labels, c):
    main = focal(outputs["logits"], labels, c.gamma, c.alpha)
    large = c.penalty * outputs["logits"].square().mean()
    return {"loss": main + large, "focal": main, "penalty": large}
