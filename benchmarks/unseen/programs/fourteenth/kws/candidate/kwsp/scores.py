import numpy as np


def confusion(truth, guess, k):
    table = np.zeros((k, k), dtype=np.int64)
    np.add.at(table, (truth, guess), 1)
    return table


def macro_f1(table):
    hit = np.diag(table)
    support = table.sum(axis=1)
    called = table.sum(axis=0)
    present = support > 0
    return float((2 * hit[present] / (support + called)[present]).mean())


def report(logits, target):
    z = logits.numpy()
    truth = target.numpy()
    order = np.argsort(-z, axis=1, kind="stable")
    return {
        "acc": float((order[:, 0] == truth).mean()),
        "top2": float((order[:, :2] == truth[:, None]).any(axis=1).mean()),
        "macro_f1": macro_f1(confusion(truth, order[:, 0], z.shape[1])),
    }
