import numpy as np


def auc(scores, labels):
    """The share of pairs in the right order; equal scores are half a pair."""
    if np.isnan(scores).any():
        return float("nan")
    positive, negative = scores[labels == 1], scores[labels != 1]
    if not len(positive) or not len(negative):
        return 0.5
    above = positive[:, None] > negative[None]
    equal = positive[:, None] == negative[None]
    return (above + 0.5 * equal).mean()


def balanced_accuracy(found, labels):
    recalls = [(found[labels == c] == c).mean() for c in (0, 1) if (labels == c).any()]
    return np.mean(recalls) if recalls else 0.0


def calibration_error(chances, labels, bins):
    """The mean distance of chance and frequency, by the number of rows in each bin."""
    place = np.minimum((chances * bins).astype(int), bins - 1)
    gap = np.bincount(place, weights=chances - labels, minlength=bins)
    return np.abs(gap).sum() / max(len(labels), 1)


def judge(logits, labels, c):
    chances = 1 / (1 + np.exp(-logits.astype("float64")))
    found = (chances >= c.threshold).astype(int)
    return {
        "auc": float(auc(logits, labels)),
        "balanced_accuracy": float(balanced_accuracy(found, labels)),
        "calibration_error": float(calibration_error(chances, labels, c.bins)),
    }
