"""The loss and the scores."""
import numpy as np
import paddle
import paddle.nn.functional as F


class Criterion:
    def __init__(self, focus, entropy_weight):
        self.focus, self.entropy_weight = focus, entropy_weight

    def focal(self, logits, share, voters):
        cross = F.cross_entropy(logits, share, soft_label=True, reduction="none").flatten()
        trust = paddle.sqrt(voters)
        expected = paddle.sum(F.softmax(logits, axis=1) * share, axis=1).detach()
        return paddle.sum(trust * paddle.pow(1.0 - expected, self.focus) * cross) / paddle.sum(trust)

    @staticmethod
    def entropy(attention, mask):
        each = -paddle.sum(attention * paddle.log(attention + 1e-8), axis=2)
        return paddle.mean(paddle.sum(each * mask, axis=1) / paddle.sum(mask, axis=1))

    def __call__(self, outputs, labels):
        focal = self.focal(outputs["logits"], labels["share"], labels["voters"])
        entropy = self.entropy(outputs["attention"], outputs["mask"])
        return {"loss": focal + self.entropy_weight * entropy, "focal": focal, "entropy": entropy}


def f1_from(table):
    hit = np.diag(table)
    whole = table.sum(0) + table.sum(1)
    return float(np.divide(2 * hit, whole, out=np.zeros(3), where=whole > 0).mean())


def kappa_from(table):
    table = table / table.sum()
    cost = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2
    chance = (cost * np.outer(table.sum(1), table.sum(0))).sum()
    return float(1 - (cost * table).sum() / chance) if chance > 0 else 0.0


def calibration_from(top, right, bins=5):
    edges = np.linspace(1 / 3, 1, bins + 1)
    place = np.searchsorted(edges, top, side="left") - 1
    gaps = np.bincount(place, weights=top - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(top))


def metric(outputs, labels):
    logits = np.asarray(outputs["logits"]).astype("float64")
    share = np.asarray(labels["share"]).astype("float64")
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    guess, truth = p.argmax(1), share.argmax(1)
    table = np.zeros((3, 3))
    np.add.at(table, (guess, truth), 1.0)
    return {
        "accuracy": float(np.trace(table) / table.sum()),
        "macro_f1": f1_from(table),
        "kappa": kappa_from(table),
        "calibration": calibration_from(p.max(1), (guess == truth).astype("float64")),
        "brier": float(np.mean(np.sum((p - share) ** 2, axis=1))),
    }
