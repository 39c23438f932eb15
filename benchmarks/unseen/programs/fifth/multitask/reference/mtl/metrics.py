import numpy as np


def auc(score, y):
    pos, neg = score[y == 1], score[y == 0]
    return float(np.mean((pos[:, None] > neg[None]) + 0.5 * (pos[:, None] == neg[None])))


def f1(score, y, threshold=0.5):
    pred = 1 / (1 + np.exp(-score)) >= threshold
    tp = np.sum(pred & (y == 1))
    return float(2 * tp / max(1, pred.sum() + (y == 1).sum()))


def mean_ap(score, y):
    aps = []
    for c in range(score.shape[1]):
        k = y[:, c] >= 0
        s, t = score[k, c], y[k, c]
        if t.sum() == 0:
            continue
        t = t[np.argsort(-s, kind="stable")]
        prec = np.cumsum(t) / np.arange(1, len(t) + 1)
        aps.append(np.sum(prec * t) / t.sum())
    return float(np.mean(aps))
