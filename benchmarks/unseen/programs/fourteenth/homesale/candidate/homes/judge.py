import numpy as np


def judge(out, answer, spread):
    guess = out["speed"].numpy().argmax(axis=1)
    truth = answer["speed"].numpy()
    hit = guess == truth
    recall = [hit[truth == c].mean() for c in np.unique(truth)]

    known = answer["priced"].numpy() > 0.5
    want = answer["price"].numpy()[known]
    off = out["price"].numpy()[known] - want
    total = ((want - want.mean()) ** 2).sum()
    return {
        "accuracy": float(hit.mean()),
        "balanced_accuracy": float(np.mean(recall)),
        "log_price_mae": float(np.abs(off).mean() * spread),
        "r2": float(1.0 - (off ** 2).sum() / total),
    }
