import numpy as np
import paddle
import paddle.nn.functional as F


def split_holes(target, dtype):
    target = target.astype(dtype)
    seen = paddle.logical_not(paddle.isnan(target))
    return paddle.where(seen, target, paddle.zeros_like(target)), seen.astype(dtype)


def weighted_mean(values, weights):
    return paddle.sum(values * weights) / paddle.clip(paddle.sum(weights), min=1.0)


def quantile_loss(pred, target, seen, quantiles, discount):
    total = 0.0
    for k, q in enumerate(quantiles):
        miss = target - pred[:, :, :, k]
        total = total + q * F.relu(miss) + (1.0 - q) * F.relu(-miss)
    steps = paddle.to_tensor(discount ** np.arange(pred.shape[1]), dtype=pred.dtype)
    steps = steps / steps.mean()
    return weighted_mean(total, seen * steps.reshape([1, -1, 1]))


def slope_loss(median, target, seen, delta):
    move, truth = paddle.diff(median, axis=1), paddle.diff(target, axis=1)
    huber = F.smooth_l1_loss(move, truth, reduction="none", delta=delta)
    return weighted_mean(huber, seen[:, 1:] * seen[:, :-1])


def forecast_loss(pred, target, quantiles, discount, slope, delta):
    target, seen = split_holes(target, pred.dtype)
    a = quantile_loss(pred, target, seen, quantiles, discount)
    b = slope_loss(pred[:, :, :, quantiles.index(0.5)], target, seen, delta)
    return {"loss": a + slope * b, "pinball": a, "slope": b}


def scores(pred, target, quantiles):
    p, y = pred.numpy().astype("float64"), target.numpy().astype("float64")
    keep = np.isfinite(y)
    p, y = p[keep], y[keep]
    low, middle, high = p.T
    volume = np.abs(y).sum()
    wql = []
    for q, forecast in zip(quantiles, p.T):
        miss = y - forecast
        wql.append(2.0 * np.maximum(q * miss, (q - 1.0) * miss).sum() / volume)
    return {
        "wql": float(np.mean(wql)),
        "nd": float(np.abs(y - middle).sum() / volume),
        "rmse": float(np.sqrt(np.mean((y - middle) ** 2))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }
