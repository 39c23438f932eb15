import numpy as np


def collapse(path):
    """Runs to one, pauses away."""
    kept = [int(c) for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
    return [c for c in kept if c != 0]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def evaluate(scores, lengths, labels, ignore):
    found = scores.argmax(axis=-1)
    right = total = wrong = tokens = 0
    per_class = {}
    for path, n, truth in zip(found, lengths, labels):
        truth = truth[:n]
        path = path[:n][truth != ignore]
        truth = truth[truth != ignore]
        right += int((path == truth).sum())
        total += len(truth)
        for c in np.unique(truth):
            hits, all_ = per_class.get(int(c), (0, 0))
            per_class[int(c)] = (hits + int((path[truth == c] == c).sum()), all_ + int((truth == c).sum()))
        goal = collapse(truth)
        wrong += edits(collapse(path), goal)
        tokens += len(goal)
    return {
        "frame_accuracy": right / max(total, 1),
        "class_recall": float(np.mean([h / a for h, a in per_class.values()])) if per_class else 0.0,
        "token_error_rate": wrong / max(tokens, 1),
    }
