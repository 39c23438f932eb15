import math

import numpy as np
import paddle
import paddle.nn.functional as F
from scipy.special import log_softmax

from .corpus import CODE, EOS, PAD

SMOOTHING, Z_WEIGHT = 0.08, 2e-4


def language_loss(logits, targets):
    real = (targets != PAD).astype(logits.dtype)
    count = real.sum()
    log_z = paddle.logsumexp(logits, axis=-1)
    picked = paddle.take_along_axis(logits, targets.unsqueeze(-1), axis=-1).squeeze(-1)
    nll = log_z - picked
    flat = log_z - logits.mean(axis=-1)                        # cross entropy with the uniform distribution
    ce = (((1 - SMOOTHING) * nll + SMOOTHING * flat) * real).sum() / count
    z = (log_z ** 2 * real).sum() / count
    return {"loss": ce + Z_WEIGHT * z, "ce": ce, "log_z": z}


def calibration(confidence, hit, bins=10):
    place = np.minimum(np.floor(confidence * bins).astype("int64"), bins - 1)
    gap = np.bincount(place, weights=hit - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(hit))


def scores(logits, targets):
    logits, targets = logits.numpy(), targets.numpy()
    keep = targets != PAD
    logp, y = log_softmax(logits[keep].astype("float64"), axis=-1), targets[keep]
    own = np.take_along_axis(logp, y[:, None], axis=1)
    guess = logp.argmax(axis=1)
    hit = (guess == y).astype("float64")
    better = (logp > own).sum(axis=1)
    borders = [CODE[" "], EOS]
    real_end, said_end = np.isin(y, borders), np.isin(guess, borders)
    both = int((real_end & said_end).sum())
    return {"bpc": float(-own.mean() / math.log(2)), "top1": float(hit.mean()), "top3": float((better < 3).mean()),
            "ece": calibration(np.exp(logp.max(axis=1)), hit),
            "word_end_f1": 2 * both / max(int(real_end.sum()) + int(said_end.sum()), 1)}
