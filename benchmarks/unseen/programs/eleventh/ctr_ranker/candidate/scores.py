# -*- coding: utf-8 -*-
import numpy as np


def roc_area(score, truth):
    good, bad = score[truth == 1], score[truth == 0]
    if good.size == 0 or bad.size == 0:
        return 0.5
    diff = good[:, None] - bad[None, :]
    return ((diff > 0).sum() + 0.5 * (diff == 0).sum()) / diff.size


def dcg(gains):
    return float(np.sum(gains / np.log2(np.arange(gains.size) + 2.0)))


def ndcg_at(score, truth, cut):
    shown = truth[np.argsort(-score, kind="stable")]
    ideal = -np.sort(-truth)
    return dcg(shown[:cut]) / dcg(ideal[:cut])


def evaluate(outputs, target, cut=3):
    score = outputs["logit"].numpy().astype("float64").reshape(-1)
    truth = target["click"].numpy().astype("float64").reshape(-1)
    group = target["session"].numpy().reshape(-1)
    ndcgs, areas = [], []
    for g in sorted(set(group.tolist())):
        s, t = score[group == g], truth[group == g]
        if t.any():
            ndcgs.append(ndcg_at(s, t, cut))
        if t.any() and not t.all():
            areas.append((roc_area(s, t), len(t)))
    prob = np.clip(1.0 / (1.0 + np.exp(-score)), 1e-7, 1 - 1e-7)
    entropy = np.where(truth > 0, np.log(prob), np.log(1.0 - prob))
    weight = sum(n for _, n in areas)
    return {
        "auc": float(roc_area(score, truth)),
        "gauc": sum(a * n for a, n in areas) / weight if areas else 0.5,
        "ndcg": sum(ndcgs) / len(ndcgs) if ndcgs else 0.0,
        "logloss": float(-entropy.mean()),
    }
