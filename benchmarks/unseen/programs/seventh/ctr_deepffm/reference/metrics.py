import numpy as np


def auc(scores, labels):
    """Area under the ROC curve by ranks; ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = labels > 0.5
    p, n = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - p * (p + 1) / 2) / (p * n)) if p and n else 0.5


def report(logits, labels):
    p = 1 / (1 + np.exp(-logits.astype("float64")))
    clipped = np.clip(p, 1e-7, 1 - 1e-7)
    logloss = -np.mean(labels * np.log(clipped) + (1 - labels) * np.log(1 - clipped))
    return {"auc": auc(logits, labels), "logloss": float(logloss), "calibration": float(p.mean() / max(labels.mean(), 1e-9))}
