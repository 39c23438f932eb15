import numpy as np


def scores(pred, target):
    pred = np.asarray(pred, "float64")
    target = np.asarray(target, "float64")
    gap = target - pred
    total = np.sum(np.square(target - target.mean()))
    return {
        "mae": float(np.mean(np.abs(gap))),
        "explained_variance": float(1.0 - np.var(gap) / np.var(target)),
        "r2": float(1.0 - np.sum(np.square(gap)) / total),
        "median_ae": float(np.median(np.abs(gap))),
    }
