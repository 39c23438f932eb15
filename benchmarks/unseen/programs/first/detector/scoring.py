import numpy as np

from boxes import overlaps


def pooled(found, targets, kind, limit):
    scores, hits, total = [], [], 0
    for rows, gold in zip(found, targets):
        gold = gold[gold[:, 4] == kind, :4].astype(rows.dtype)
        total += len(gold)
        taken = np.zeros(len(gold), bool)
        for row in rows[rows[:, 5] == kind]:
            hit = False
            if len(gold):
                iou = overlaps(row[None], gold)[0]
                j = iou.argmax()
                hit = bool(iou[j] >= limit and not taken[j])
                taken[j] |= hit
            scores.append(row[4])
            hits.append(hit)
    order = np.argsort(-np.array(scores), kind="stable")
    return np.array(hits, float)[order] if len(hits) else np.zeros(1), total


def average_precision(found, targets, classes, limit=0.3):
    aps, recalls = [], []
    for kind in range(classes):
        hits, total = pooled(found, targets, kind, limit)
        if not total:
            continue
        recall = hits.cumsum() / total
        precision = hits.cumsum() / (1 + np.arange(len(hits)))
        points = [precision[recall >= t].max(initial=0.0) for t in np.linspace(0, 1, 11)]
        aps.append(np.mean(points))
        recalls.append(recall[-1])
    return {"map": float(np.mean(aps)), "recall": float(np.mean(recalls))}
