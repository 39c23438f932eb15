"""Reading voices off the chances."""
import numpy as np
import paddle

from .sheets import PAD_LABEL


def rates(outputs, before):
    score = paddle.where(outputs["open"] > 0, outputs["logp"], paddle.full_like(outputs["logp"], -1e30))
    kind = score.dtype
    guess = paddle.argmax(score, axis=-1)
    real = before != PAD_LABEL
    same = paddle.logical_and(guess == before, real)
    n_hit = paddle.logical_and(same, before > 0).astype(kind).sum()
    n_said = paddle.logical_and(guess > 0, real).astype(kind).sum()
    n_true = (before > 0).astype(kind).sum()
    return dict(right=same.astype(kind).sum() / real.astype(kind).sum(), f1=f_score(n_hit, n_said, n_true))


def f_score(hit, said, true):
    p, r = hit / said.clip(min=1), hit / true.clip(min=1)
    return 2 * p * r / (p + r).clip(min=1e-6)


def greedy(logp, free):
    """Voices of the notes of a window, left to right; a note is followed once at most."""
    chance = np.where(free > 0, logp, -np.inf)
    voices, used = [], np.zeros(chance.shape[1], bool)
    for row in chance:
        row = np.where(used, -np.inf, row)
        k = int(row.argmax())
        if k:
            used[k] = True
            voices.append(voices[k - 1])
        else:
            voices.append(max(voices, default=-1) + 1)
    return voices
