import numpy as np
import paddle
import paddle.nn.functional as F

from graph_data import CONF, CORPUS


def classification(logits, kind):
    balance = paddle.to_tensor(CORPUS.balance, dtype=logits.dtype)
    return F.cross_entropy(logits, kind, weight=balance, ignore_index=-1)


def regression(guess, target, known):
    target, known = target.astype(guess.dtype), known.astype(guess.dtype)
    error = F.smooth_l1_loss(guess, target, reduction="none", delta=CONF["criterion"]["knee"], is_huber=False)
    return paddle.sum(paddle.sum(error * known, axis=0) / paddle.clip(known.sum(axis=0), min=1.0))


def combine(outputs, labels):
    kind = classification(outputs["kind"], labels["kind"])
    props = regression(outputs["props"], labels["props"], labels["known"])
    bonds = paddle.mean(outputs["bond_error"])
    s = outputs["log_variance"]
    precision = paddle.exp(-s)
    loss = precision[0] * kind + 0.5 * (precision[1] * props + precision[2] * bonds) + 0.5 * paddle.sum(s)
    return {"kind": kind, "props": props, "bonds": bonds, "loss": loss}


def macro_f1(truth, guess, n_kinds=3):
    table = np.zeros((n_kinds, n_kinds))
    np.add.at(table, (truth, guess), 1)
    both = table.sum(axis=0) + table.sum(axis=1)
    seen = both > 0
    return float((2.0 * np.diag(table)[seen] / both[seen]).mean()) if seen.any() else 0.0


def assess(outputs, labels):
    truth = labels["kind"].numpy().reshape(-1)
    guess = outputs["kind"].numpy().argmax(axis=-1)
    valid = truth != -1
    truth, guess = truth[valid], guess[valid]
    scores = {
        "accuracy": float(np.mean(truth == guess)) if truth.size else 0.0,
        "macro_f1": macro_f1(truth, guess),
        "bond_rmse": float(np.mean(outputs["bond_error"].numpy().astype("float64")) ** 0.5),
    }
    off = np.abs(outputs["props"].numpy().astype("float64") - labels["props"].numpy()) * CORPUS.spread
    known = labels["known"].numpy().astype(bool)
    for column, name in enumerate(["gap", "energy"]):
        chosen = off[known[:, column], column]
        scores["mae_" + name] = float(chosen.mean()) if chosen.size else 0.0
    return scores
