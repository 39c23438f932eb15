import paddle
import paddle.nn.functional as F


def focal(z, y, alpha, gamma):
    ce = F.binary_cross_entropy_with_logits(z, y, reduction="none")
    sure = paddle.exp(-ce).detach()
    side = paddle.where(y > 0.5, paddle.full_like(y, alpha), paddle.full_like(y, 1.0 - alpha))
    return paddle.mean(side * paddle.pow(1.0 - sure, gamma) * ce)


def known_bce(z, y, unknown):
    use = (y != unknown).astype(z.dtype)
    each = F.binary_cross_entropy_with_logits(z, y * use, reduction="none")
    return (each * use).sum() / use.sum()


def smooth_l1(guess, truth, beta):
    gap = (guess - truth).abs()
    return paddle.where(gap < beta, 0.5 * gap * gap / beta, gap - 0.5 * beta).mean()


class Weighted:
    def __init__(self, alpha, gamma, unknown, beta):
        self.alpha, self.gamma, self.unknown, self.beta = alpha, gamma, unknown, beta

    def __call__(self, outputs, batch):
        parts = {"click": focal(outputs["click"], batch["click"], self.alpha, self.gamma),
                 "tags": known_bce(outputs["tags"], batch["tags"], self.unknown),
                 "dwell": smooth_l1(outputs["dwell"], batch["dwell"], self.beta)}
        s = outputs["log_vars"]
        stacked = paddle.stack([parts["click"], parts["tags"], parts["dwell"]])
        return {**parts, "loss": paddle.sum(paddle.exp(-s) * stacked + 0.5 * s)}
