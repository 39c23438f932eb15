import numpy as np
from paddle.nn import functional as F


def click_loss(logits, clicks, weight=1.5):
    clicks = clicks.astype(logits.dtype)
    return (weight * clicks * F.softplus(-logits) + (1 - clicks) * F.softplus(logits)).mean()


def area_under_curve(scores, clicks):
    above = scores[clicks == 1][:, None] - scores[clicks == 0][None, :]
    return float(np.mean((above > 0) + 0.5 * (above == 0))) if above.size else 0.5


def figures(logits, clicks):
    rate = 1 / (1 + np.exp(-np.float64(logits)))
    safe = rate.clip(1e-7, 1 - 1e-7)
    return {
        "auc": area_under_curve(logits, clicks),
        "logloss": float(-np.log(np.where(clicks == 1, safe, 1 - safe)).mean()),
        "calibration": float(rate.sum() / max(clicks.sum(), 1e-9)),
    }
