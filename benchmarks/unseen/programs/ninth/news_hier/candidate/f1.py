import numpy as np


def per_class(predicted, truth, classes):
    """F1 of each class; of one that neither occurs nor is predicted: 0."""
    values = np.zeros(classes)
    for c in range(classes):
        hits = np.sum((predicted == c) & (truth == c))
        wrong = np.sum((predicted == c) & (truth != c))
        missed = np.sum((predicted != c) & (truth == c))
        if hits + wrong + missed > 0:
            values[c] = 2 * hits / (2 * hits + wrong + missed)
    return values


def evaluate(logits, labels):
    logits, truth = np.asarray(logits), np.asarray(labels).reshape(-1)
    predicted = logits.argmax(axis=-1)
    f1 = per_class(predicted, truth, logits.shape[-1])
    return {"accuracy": float(np.mean(predicted == truth)), "macro_f1": float(f1.mean())}
