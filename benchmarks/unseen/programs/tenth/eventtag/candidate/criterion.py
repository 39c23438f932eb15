import numpy as np
import paddle
from paddle.nn import functional as F

from .config import cfg


def tagging_loss(outputs, labels):
    logit = outputs["frame"]
    mask = (labels >= 0).astype(logit.dtype)
    y = paddle.clip(labels, min=0.0).astype(logit.dtype)
    pos = paddle.to_tensor(cfg.objective.positive, dtype=logit.dtype)
    raw = F.binary_cross_entropy_with_logits(logit, y, pos_weight=pos, reduction="none")
    frame = paddle.sum(raw * mask) / paddle.clip(mask.sum(), min=1.0)
    prob = paddle.clip(outputs["clip"], 1e-6, 1 - 1e-6)
    clip = F.binary_cross_entropy(prob, y.max(axis=1))
    return {"loss": frame + cfg.objective.lambda_clip * clip, "frame": frame, "clip": clip}


def average_precision(score, positive):
    """Mean over the positives of the precision at their score."""
    values = []
    for s in score[positive]:
        chosen = score >= s
        values.append(np.logical_and(chosen, positive).sum() / chosen.sum())
    return float(np.mean(values))


def evaluate(outputs, labels):
    logit, clip, y = outputs["frame"].numpy(), outputs["clip"].numpy(), labels.numpy()
    known = y >= 0
    truth = y == 1
    guess = np.logical_and(logit > 0, known)
    hit = np.logical_and(guess, truth).sum()
    false_alarm = np.logical_and(guess, ~truth).sum(axis=2)
    missed = np.logical_and(truth, ~guess).sum(axis=2)
    f1 = 2.0 * hit / max(2.0 * hit + false_alarm.sum() + missed.sum(), 1)
    # substitutions, insertions and deletions of a frame add up to the larger of the two
    error = np.maximum(false_alarm, missed).sum() / max(truth.sum(), 1)
    present = truth.any(axis=1)
    aps = [average_precision(clip[:, c], present[:, c]) for c in range(clip.shape[1]) if present[:, c].any()]
    return {"f1": float(f1), "error_rate": float(error), "map": float(np.mean(aps)) if aps else 0.0}
