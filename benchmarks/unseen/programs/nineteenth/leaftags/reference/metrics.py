import numpy as np

from .data import TREE

GRID = np.arange(1, 20) * 0.05


def f1(tp, fp, fn):
    den = 2 * tp + fp + fn
    return np.where(den > 0, 2 * tp / np.maximum(den, 1), 0.0)


def counts(pred, true):
    return (pred & true).sum(0), (pred & ~true).sum(0), (~pred & true).sum(0)


def scores(pred, true):
    tp, fp, fn = counts(pred, true)
    seen = true.any(0)
    return {"micro_f1": float(f1(tp.sum(), fp.sum(), fn.sum())), "macro_f1": float(f1(tp, fp, fn)[seen].mean())}


def tune_thresholds(prob, true):
    """Best F1 of each label; of equal ones the threshold that is nearest to one half."""
    table = np.stack([f1(*counts(prob > t, true)) for t in GRID])
    best = np.full(prob.shape[1], 0.5)
    for j in range(prob.shape[1]):
        top = np.flatnonzero(table[:, j] == table[:, j].max())
        best[j] = GRID[top[np.argmin(np.abs(GRID[top] - 0.5))]]
    return best


def top_down(prob):
    """No label is likelier than its parent (parents stand before their children)."""
    prob = prob.copy()
    for c, p in enumerate(TREE.parent):
        if p >= 0:
            prob[:, c] = np.minimum(prob[:, c], prob[:, p])
    return prob


def r_precision(prob, true):
    """Share of right labels among the R highest, R the number of true labels."""
    order = np.argsort(-prob, axis=1, kind="stable")
    hits = np.take_along_axis(true, order, axis=1)
    r = true.sum(1)
    return float(np.mean([hits[i, : r[i]].mean() for i in range(len(r)) if r[i]]))


def evaluate(logits, labels):
    prob = top_down(1 / (1 + np.exp(-logits)))
    true = labels > 0.5
    out = scores(prob > 0.5, true)
    tuned = scores(prob > tune_thresholds(prob, true), true)
    out["tuned_macro_f1"] = tuned["macro_f1"]
    out["r_precision"] = r_precision(prob, true)
    return out
