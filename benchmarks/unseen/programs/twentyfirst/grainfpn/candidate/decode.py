import numpy as np
import paddle
import paddle.nn.functional as F
from scipy import ndimage

from . import cfg


def local_maxima(heat):
    p = F.sigmoid(heat)
    top = F.max_pool2d(p, kernel_size=3, stride=1, padding=1)
    return paddle.where(top == p, p, paddle.zeros_like(p)).numpy()[:, 0]


def average_precision(heat, pos):
    score = local_maxima(heat)
    open_ = {b: {tuple(c) for c in np.argwhere(p[0] > 0)} for b, p in enumerate(pos.numpy())}
    n = sum(len(v) for v in open_.values())
    if n == 0:
        return 0.0
    where = np.argwhere(score > 0)
    ranked = where[np.argsort(-score[tuple(where.T)], kind="stable")]
    right = np.zeros(len(ranked))
    for i, (b, y, x) in enumerate(ranked):
        reach = [(max(abs(cy - y), abs(cx - x)), (cy - y) ** 2 + (cx - x) ** 2, (cy, cx)) for cy, cx in open_[b]]
        reach = sorted(r[1:] for r in reach if r[0] <= 1)
        if reach:
            open_[b].discard(reach[0][1])
            right[i] = 1
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    best_after = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.dot(best_after, right) / n)


def figures(out, y):
    counted = y["valid"].numpy() > 0
    guess = (F.sigmoid(out["mask"]).numpy() > cfg.MASK_THRESHOLD) & counted
    truth = (y["mask"].numpy() > 0) & counted
    inter = (guess & truth).sum(axis=(1, 2, 3)).astype("float64")
    union = (guess | truth).sum(axis=(1, 2, 3)).astype("float64")
    b, _, i, j = np.nonzero(y["pos"].numpy())
    error = 0.0
    if len(b):
        a, t = out["size"].numpy()[b, :, i, j], y["size"].numpy()[b, :, i, j]
        error = float(np.abs(np.exp(a) - np.exp(t)).mean())
    return {"iou": float(inter.sum() / max(union.sum(), 1)), "image_iou": float(np.mean((inter + 1) / (union + 1))),
            "centre_ap": average_precision(out["heat"], y["pos"]), "size_mae": error}


def iou_to(box, others):
    y0, x0 = np.maximum(box[0], others[:, 0]), np.maximum(box[1], others[:, 1])
    y1, x1 = np.minimum(box[2], others[:, 2]), np.minimum(box[3], others[:, 3])
    inter = np.maximum(y1 - y0, 0) * np.maximum(x1 - x0, 0)
    area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    return inter / (area(box) + area(others) - inter)


def nms(boxes, scores, limit):
    rest = np.argsort(-scores, kind="stable")
    kept = []
    while len(rest):
        first, rest = rest[0], rest[1:]
        kept.append(first)
        rest = rest[iou_to(boxes[first], boxes[rest]) <= limit]
    return np.asarray(kept, dtype="int64")


def detections(heat, size, h, w):
    score = local_maxima(heat)[0]
    extent = np.exp(size.numpy()[0])
    cells = np.argwhere(score > 0)
    cells = cells[np.argsort(-score[tuple(cells.T)], kind="stable")][:cfg.TOP_K]
    middle = (cells + 0.5) * cfg.STRIDE
    inner = (middle < [h, w]).all(axis=1)
    cells, middle = cells[inner], middle[inner]
    half = extent[:, cells[:, 0], cells[:, 1]].T / 2
    boxes = np.concatenate([middle - half, middle + half], axis=1)
    boxes = np.clip(boxes, 0, [h, w, h, w])
    scores = score[tuple(cells.T)]
    kept = nms(boxes, scores, cfg.NMS_IOU)
    return boxes[kept], scores[kept], middle[kept]


def segment(out, h, w):
    boxes, scores, middle = detections(out["heat"], out["size"], h, w)
    on = F.sigmoid(out["mask"]).numpy()[0, 0, :h, :w] > cfg.MASK_THRESHOLD
    regions, n = ndimage.label(on)
    home = regions[tuple(middle.astype("int64").T)]
    final = np.zeros((h, w), "int64")
    count = 0
    for k in range(1, n + 1):
        pixels = np.argwhere(regions == k)
        if len(pixels) < cfg.MIN_PIXELS:
            continue
        seeds = middle[home == k]
        if len(seeds) < 2 or len(pixels) <= cfg.LARGE:
            count += 1
            final[tuple(pixels.T)] = count
            continue
        distance = ((pixels[:, None] + 0.5 - seeds[None]) ** 2).sum(-1)
        final[tuple(pixels.T)] = count + 1 + distance.argmin(1)
        count += len(seeds)
    return {"label": final, "count": count, "boxes": boxes, "scores": scores}
