import math

import numpy as np

from scenes import CLASSES, HEIGHT, WIDTH


def anchor_grid(strides=(8, 16), ratios=(0.5, 1.0, 2.0), scales=(1.0, 1.5874)):
    levels = []
    for stride in strides:
        ys = (np.arange(math.ceil(HEIGHT / stride)) + 0.5) * stride
        xs = (np.arange(math.ceil(WIDTH / stride)) + 0.5) * stride
        cy, cx = np.meshgrid(ys, xs, indexing="ij")
        shapes = [(2 * stride * s / r**0.5, 2 * stride * s * r**0.5) for r in ratios for s in scales]
        half = np.array(shapes) / 2
        centre = np.stack([cx, cy], axis=-1)[:, :, None, :]
        levels.append(np.concatenate([centre - half, centre + half], axis=-1).reshape(-1, 4))
    return np.concatenate(levels)


def overlaps(a, b):
    x1, y1 = np.maximum(a[:, None, 0], b[:, 0]), np.maximum(a[:, None, 1], b[:, 1])
    x2, y2 = np.minimum(a[:, None, 2], b[:, 2]), np.minimum(a[:, None, 3], b[:, 3])
    inter = np.clip(x2 - x1, 0, None) * np.clip(y2 - y1, 0, None)
    size = lambda q: np.clip(q[:, 2] - q[:, 0], 0, None) * np.clip(q[:, 3] - q[:, 1], 0, None)
    return inter / (size(a)[:, None] + size(b) - inter)


def suppress(boxes, limit):
    """boxes sorted by score -> the indices that stay"""
    table = overlaps(boxes, boxes)
    alive = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        if alive[i]:
            alive[i + 1 :] &= table[i, i + 1 :] <= limit
    return np.flatnonzero(alive)


def final_detections(logits, boxes, score_limit=0.12, candidates=40, overlap=0.45, most=20):
    prob = 1 / (1 + np.exp(-logits))
    boxes = np.clip(boxes, 0, np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], dtype=boxes.dtype))
    rows = []
    for kind in range(CLASSES):
        score = prob[:, kind]
        order = np.argsort(-score, kind="stable")[:candidates]
        order = order[score[order] > score_limit]
        order = order[suppress(boxes[order], overlap)]
        label = np.full((len(order), 1), kind, dtype=boxes.dtype)
        rows.append(np.hstack([boxes[order], score[order, None], label]))
    rows = np.vstack(rows)
    return rows[np.argsort(-rows[:, 4], kind="stable")][:most]
