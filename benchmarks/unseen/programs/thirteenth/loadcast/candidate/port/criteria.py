import math

import numpy as np
import paddle

from .options import LEVELS, LOSS


def student_log_prob(x, df, loc, scale):
    y = (x - loc) / scale
    norm = scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + paddle.lgamma(df / 2) - paddle.lgamma((df + 1) / 2)
    return -0.5 * (df + 1) * paddle.log1p(y * y / df) - norm


def quantile_error(quantiles, values):
    total = 0.0
    for k, level in enumerate(LEVELS):
        error = values - quantiles[..., k]
        total = total + paddle.where(error >= 0, level * error, (level - 1) * error)
    return total


def forecast_loss(outputs, labels):
    labels = labels.astype(outputs["loc"].dtype)
    values, observed = labels[..., 0], labels[..., 1]
    count = paddle.clip(observed.sum(), min=1.0)

    def seen(x):
        return (x * observed).sum() / count

    nll = -seen(student_log_prob(values, outputs["df"], outputs["loc"], outputs["scale"]))
    quantile = seen(quantile_error(outputs["quantiles"], values))
    kl = paddle.clip(outputs["kl"].mean(), min=LOSS["free_bits"])
    return {"loss": nll + LOSS["quantile"] * quantile + LOSS["kl"] * kl, "nll": nll, "quantile": quantile, "kl": kl}


def evaluate(outputs, labels):
    labels = labels.numpy()
    seen = labels[..., 1] > 0
    q = outputs["quantiles"].numpy()[seen]
    y = labels[..., 0][seen].astype(q.dtype)
    loc = outputs["loc"].numpy()[seen]
    error = y[:, None] - q
    levels = np.asarray(LEVELS, q.dtype)
    pinball = np.where(error > 0, levels, levels - 1) * error
    low, median, high = q[:, 0], q[:, LEVELS.index(0.5)], q[:, -1]
    return {
        "crps": float(2 * pinball.mean()),
        "wmape": float(np.abs(y - median).sum() / np.abs(y).sum()),
        "rmse": float(np.sqrt(np.square(y - loc).mean())),
        "coverage": float(((low <= y) & (y <= high)).mean()),
        "width": float((high - low).mean()),
    }
