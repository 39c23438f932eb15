import numpy as np


def evaluate(distance, same):
    """area under the ROC curve, equal error rate, accuracy at the margin's middle"""
    d, y = np.asarray(distance, dtype=np.float64), np.asarray(same) > 0.5
    pos, neg = d[y], d[~y]
    wins = (pos[:, None] < neg[None]).sum() + 0.5 * (pos[:, None] == neg[None]).sum()
    auc = wins / (len(pos) * len(neg))
    rates = []
    for t in np.sort(d):
        fr = (pos > t).mean()
        fa = (neg <= t).mean()
        rates.append((abs(fr - fa), (fr + fa) / 2))
    eer = min(rates, key=lambda r: r[0])[1]
    return {"auc": float(auc), "eer": float(eer), "mean_gap": float(neg.mean() - pos.mean())}
