import numpy as np
from scipy.stats import rankdata


def auc(scores, labels):
    """The share of pairs in the right order; equal scores are half a pair."""
    if np.isnan(scores).any():
        return float("nan")
    positive = labels == 1
    p, n = positive.sum(), (~positive).sum()
    if p == 0 or n == 0:
        return 0.5
    ranks = rankdata(scores)
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)


def balanced_accuracy(found, labels):
    recalls = [(found[labels == c] == c).mean() for c in (0, 1) if (labels == c).any()]
    return np.mean(recalls) if recalls else 0.0


def calibration_error(chances, labels, bins):
    """The mean distance of chance and frequency, by the number of rows in each bin."""
    place = np.minimum((chances * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        inside = place == b
        if inside.any():
            total += inside.sum() * abs(chances[inside].mean() - labels[inside].mean())
    return total / max(len(labels), 1)


def judge(logits, labels, c):
    chances = 1 / (1 + np.exp(-logits.astype("float64")))
    found = (chances >= c.threshold).astype(int)
    return {
        "auc": float(auc(logits, labels)),
        "balanced_accuracy": float(balanced_accuracy(found, labels)),
        "calibration_error": float(calibration_error(chances, labels, c.bins)),
    }
