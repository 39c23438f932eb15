"""Decoding, suppression and average precision in numpy."""
import numpy as np

from .modeling import N_DIGITS
from .targets import grid


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def overlap(box, others):
    w = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    h = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    inter = np.clip(w, 0, None) * np.clip(h, 0, None)
    area = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return inter / ((box[2] - box[0]) * (box[3] - box[1]) + area - inter)


def suppress(boxes, digits, threshold):
    """Indices that stay; boxes come best first, and only equal digits compete."""
    alive = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        if alive[i]:
            later = np.arange(len(boxes)) > i
            rivals = np.flatnonzero(later & alive & (digits == digits[i]))
            alive[rivals[overlap(boxes[i], boxes[rivals]) > threshold]] = False
    return np.flatnonzero(alive)


def decode(cls, reg, ctr, size=96, top=200, threshold=0.5, most=60):
    score = np.sqrt(sigmoid(cls) * sigmoid(ctr)[:, None]).ravel()
    best = np.argsort(-score, kind="stable")[:top]
    where, digit = np.divmod(best, N_DIGITS)
    xy = grid(size)[where, :2].astype(reg.dtype)
    boxes = np.concatenate([xy - reg[where, :2], xy + reg[where, 2:]], axis=1).clip(0, size)
    keep = suppress(boxes, digit, threshold)[:most]
    return boxes[keep], score[best][keep], digit[keep]


def evaluate(out, targets, threshold):
    found = [decode(*(np.asarray(out[k][i]) for k in ("cls", "reg", "ctr"))) for i in range(len(targets))]
    aps, right, wanted = [], 0, 0
    for d in range(N_DIGITS):
        truth = [t[t[:, 4] == d, :4] for t in targets]
        n = sum(map(len, truth))
        if not n:
            continue
        page = np.concatenate([np.full((f[2] == d).sum(), i) for i, f in enumerate(found)]).astype(int)
        score = np.concatenate([f[1][f[2] == d] for f in found])
        boxes = np.concatenate([f[0][f[2] == d] for f in found])
        taken = [np.zeros(len(t), bool) for t in truth]
        tp = np.zeros(len(score))
        for k, j in enumerate(np.argsort(-score, kind="stable")):
            i = page[j]
            if len(truth[i]):
                o = overlap(boxes[j], truth[i])
                m = o.argmax()
                if o[m] >= threshold and not taken[i][m]:
                    taken[i][m], tp[k] = True, 1.0
        precision = tp.cumsum() / np.arange(1, len(tp) + 1)
        envelope = np.maximum.accumulate(precision[::-1])[::-1]
        aps.append((envelope * tp).sum() / n)
        right, wanted = right + tp.sum(), wanted + n
    return float(np.mean(aps)) if aps else 0.0, float(right / max(wanted, 1))
