"""AUC, AUC by session, log loss and NDCG, in numpy."""
import numpy as np


def ranks(scores):
    order = np.argsort(scores, kind="stable")
    result = np.empty(len(scores))
    result[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        tied = scores == value
        result[tied] = result[tied].mean()
    return result


def auc(scores, click):
    pos = click > 0.5
    n_pos, n_neg = pos.sum(), (~pos).sum()
    if n_pos == 0 or n_neg == 0:
        return 0.5
    return (ranks(scores)[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def ndcg(scores, click, k):
    order = np.argsort(-scores, kind="stable")[:k]
    discount = 1.0 / np.log2(np.arange(2, len(scores) + 2))
    best = np.sort(click)[::-1][:k]
    ideal = (best * discount[: len(best)]).sum()
    return (click[order] * discount[: len(order)]).sum() / ideal


def report(outputs, labels, k=3):
    scores = outputs["logit"].detach().cpu().numpy().astype("float64")
    click = labels["click"].detach().cpu().numpy().astype("float64")
    session = labels["session"].detach().cpu().numpy()
    p = np.clip(1 / (1 + np.exp(-scores)), 1e-7, 1 - 1e-7)
    gains, aucs, sizes = [], [], []
    for s in np.unique(session):
        here = session == s
        if click[here].max() > 0:
            gains.append(ndcg(scores[here], click[here], k))
        if 0 < click[here].sum() < here.sum():
            aucs.append(auc(scores[here], click[here]))
            sizes.append(here.sum())
    return {
        "auc": float(auc(scores, click)),
        "gauc": float(np.average(aucs, weights=sizes)) if aucs else 0.5,
        "ndcg": float(np.mean(gains)) if gains else 0.0,
        "logloss": float(-(click * np.log(p) + (1 - click) * np.log(1 - p)).mean()),
    }
