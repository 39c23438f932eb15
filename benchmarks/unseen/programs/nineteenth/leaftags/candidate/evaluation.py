import numpy as np

from .taxonomy import taxonomy

CANDIDATES = np.arange(1, 20) * 0.05


def confusion(guess, truth):
    hit = np.logical_and(guess, truth).sum(axis=0)
    return hit, guess.sum(axis=0), truth.sum(axis=0)


def dice(hit, guessed, wanted):
    total = np.asarray(guessed + wanted, dtype="float64")
    return np.divide(2.0 * hit, total, out=np.zeros_like(total), where=total > 0)


def summary(guess, truth):
    hit, guessed, wanted = confusion(guess, truth)
    each = dice(hit, guessed, wanted)
    return float(dice(hit.sum(), guessed.sum(), wanted.sum())), float(np.mean(each[wanted > 0]))


def pick_thresholds(prob, truth):
    chosen = []
    for k in range(prob.shape[1]):
        best = (-1.0, 0.0, 0.0)
        for t in CANDIDATES:
            score = float(dice(*confusion(prob[:, k] > t, truth[:, k])))
            entry = (score, -abs(t - 0.5), t)
            if entry[:2] > best[:2]:
                best = entry
        chosen.append(best[2])
    return np.array(chosen)


def cap_by_parent(prob):
    """A label is at most as likely as all that stand above it."""
    out = prob.copy()
    for k in range(taxonomy.size):
        out[:, k] = prob[:, taxonomy.closure[k]].min(axis=1)
    return out


def r_precision(prob, truth):
    values = []
    for p, t in zip(prob, truth):
        wanted = int(t.sum())
        if wanted == 0:
            continue
        first = np.argsort(-p, kind="stable")[:wanted]
        values.append(t[first].sum() / wanted)
    return float(np.mean(values))


def report(logits, target):
    prob = cap_by_parent(1.0 / (1.0 + np.exp(-logits)))
    truth = target > 0.5
    micro, macro = summary(prob > 0.5, truth)
    _, tuned = summary(prob > pick_thresholds(prob, truth), truth)
    return {"micro_f1": micro, "macro_f1": macro, "tuned_macro_f1": tuned, "r_precision": r_precision(prob, truth)}
