"""Token accuracy and the entity scores of CoNLL."""
import numpy as np

from .corpus import IGNORED, TAGS


def entities(ids):
    out, open_ = [], None
    for place, tag in enumerate([TAGS[i] for i in ids] + ["O"]):
        head, _, kind = tag.partition("-")
        if open_ and (head != "I" or kind != open_[1]):
            out.append((open_[0], place, open_[1]))
            open_ = None
        if head != "O" and open_ is None:
            open_ = (place, kind)
    return out


def evaluate(predicted, gold):
    kept = gold != IGNORED
    hits = guessed = true = 0
    for p, g, k in zip(predicted, gold, kept):
        a, b = set(entities(p[k])), set(entities(g[k]))
        hits += len(a & b)
        guessed += len(a)
        true += len(b)
    precision, recall = hits / max(guessed, 1), hits / max(true, 1)
    f1 = 0.0 if hits == 0 else 2 / (1 / precision + 1 / recall)
    return {"accuracy": float(np.mean((predicted == gold)[kept])), "precision": precision, "recall": recall, "f1": f1}
