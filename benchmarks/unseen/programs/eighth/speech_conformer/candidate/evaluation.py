from collections import Counter
from itertools import groupby

import numpy as np


def collapse(path):
    """Runs to one, pauses away."""
    return [int(c) for c, _ in groupby(path) if c != 0]


def edits(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0] = np.arange(len(a) + 1)
    table[0] = np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return int(table[-1, -1])


def evaluate(scores, lengths, labels, ignore):
    found = np.argmax(scores, axis=-1)
    hits, seen = Counter(), Counter()
    wrong = tokens = 0
    for path, n, truth in zip(found, lengths, labels):
        valid = np.flatnonzero(truth[:n] != ignore)
        path, truth = path[valid], truth[valid]
        seen.update(truth.tolist())
        hits.update(truth[path == truth].tolist())
        goal = collapse(truth)
        wrong += edits(collapse(path), goal)
        tokens += len(goal)
    recalls = [hits[c] / n for c, n in seen.items()]
    return {
        "frame_accuracy": sum(hits.values()) / max(sum(seen.values()), 1),
        "class_recall": float(np.mean(recalls)) if recalls else 0.0,
        "token_error_rate": wrong / max(tokens, 1),
    }
