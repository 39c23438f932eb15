import math

import paddle

from .settings import BETA, VAR_FLOOR, Z90


def floor_through(var):
    """Clamp from below whose gradient passes unchanged."""
    return var + (paddle.clip(var, min=VAR_FLOOR) - var).detach()


class BetaNLL(paddle.nn.Layer):
    def __init__(self, smoothness=0.01):
        super().__init__()
        self.smoothness = smoothness

    def forward(self, pred, target):
        mean, var = pred[..., 0], floor_through(pred[..., 1])
        truth, known = target[..., 0], target[..., 1]
        each = 0.5 * (paddle.log(var) + (mean - truth).square() / var)
        each = each * var.detach() ** BETA
        rough = paddle.diff(mean, axis=1).square().mean()
        return (each * known).sum() / paddle.clip(known.sum(), min=1.0) + self.smoothness * rough


def scores(pred, target):
    pick = target[..., 1] > 0.5
    residual = paddle.masked_select(pred[..., 0] - target[..., 0], pick)
    sigma = paddle.masked_select(paddle.clip(pred[..., 1], min=VAR_FLOOR), pick).sqrt()
    z = residual / sigma
    density = paddle.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    crps = sigma * (z * paddle.erf(z / math.sqrt(2)) + 2 * density - math.pi ** -0.5)
    return dict(rmse=residual.square().mean().sqrt(),
                mae_median=paddle.quantile(residual.abs(), 0.5),
                cover90=(z.abs() <= Z90).astype("float32").mean(),
                crps=crps.mean())
