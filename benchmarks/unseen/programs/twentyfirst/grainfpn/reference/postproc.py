"""From maps to grains: peaks, boxes, suppression, connected components; and the figures of an evaluation."""
import numpy as np
import torch
import torch.nn.functional as F


def peaks(heat):
    """Scores where a cell is the largest of its 3x3 neighbourhood, else 0."""
    p = torch.sigmoid(heat)
    return p * (F.max_pool2d(p, 3, stride=1, padding=1) == p)


def centre_ap(heat, pos):
    """Average precision of the peaks of a batch; a centre is found once, by a peak at most one cell away."""
    score = peaks(heat).cpu().numpy()[:, 0]
    centres = [[tuple(c) for c in np.argwhere(p[0] > 0)] for p in pos.cpu().numpy()]
    total = sum(map(len, centres))
    found = [(score[b, y, x], b, y, x) for b, y, x in zip(*np.nonzero(score))]
    found.sort(key=lambda f: (-f[0], f[1:]))
    hits = []
    for _, b, y, x in found:
        near = [c for c in centres[b] if max(abs(c[0] - y), abs(c[1] - x)) <= 1]
        if near:
            centres[b].remove(min(near, key=lambda c: ((c[0] - y) ** 2 + (c[1] - x) ** 2, c)))
        hits.append(bool(near))
    if not total:
        return 0.0
    tp = np.cumsum(hits)
    precision = tp / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((envelope * np.array(hits)).sum() / total)


def evaluate(out, y, threshold):
    guess = (torch.sigmoid(out["mask"]) > threshold) & (y["valid"] > 0)
    truth = (y["mask"] > 0) & (y["valid"] > 0)
    inter = (guess & truth).sum((1, 2, 3)).double()
    union = (guess | truth).sum((1, 2, 3)).double()
    pos = y["pos"].bool().expand_as(out["size"])
    error = (out["size"].exp() - y["size"].exp()).abs()[pos].mean() if pos.any() else out["size"].new_zeros(())
    return {"iou": float(inter.sum() / union.sum().clamp(min=1)),
            "image_iou": float(((inter + 1) / (union + 1)).mean()),
            "centre_ap": centre_ap(out["heat"], y["pos"]), "size_mae": float(error)}


def components(mask):
    """4-connected components by flood fill, numbered in reading order of their first pixel."""
    h, w = mask.shape
    label = np.zeros((h, w), np.int64)
    n = 0
    for y in range(h):
        for x in range(w):
            if mask[y, x] and not label[y, x]:
                n += 1
                stack = [(y, x)]
                label[y, x] = n
                while stack:
                    a, b = stack.pop()
                    for c, d in ((a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)):
                        if 0 <= c < h and 0 <= d < w and mask[c, d] and not label[c, d]:
                            label[c, d] = n
                            stack.append((c, d))
    return label, n


def suppress(boxes, scores, limit):
    order = np.argsort(-scores, kind="stable")
    kept = []
    for i in order:
        for j in kept:
            tl, br = np.maximum(boxes[i, :2], boxes[j, :2]), np.minimum(boxes[i, 2:], boxes[j, 2:])
            inter = np.prod(np.clip(br - tl, 0, None))
            areas = np.prod(boxes[i, 2:] - boxes[i, :2]) + np.prod(boxes[j, 2:] - boxes[j, :2])
            if inter / (areas - inter) > limit:
                break
        else:
            kept.append(i)
    return np.array(kept, dtype=np.int64)


def grains(out, h, w, stride, cfg):
    """out: maps of one padded picture -> label map, boxes (y0, x0, y1, x1) and scores."""
    prob = torch.sigmoid(out["mask"])[0, 0, :h, :w].cpu().numpy()
    score = peaks(out["heat"])[0, 0].cpu().numpy()
    size = out["size"][0].exp().cpu().numpy()
    ys, xs = np.nonzero(score)
    order = np.argsort(-score[ys, xs], kind="stable")[:cfg.top]
    ys, xs = ys[order], xs[order]
    cy, cx = (ys + 0.5) * stride, (xs + 0.5) * stride
    inner = (cy < h) & (cx < w)                  # none in the padding
    ys, xs, cy, cx = ys[inner], xs[inner], cy[inner], cx[inner]
    half = size[:, ys, xs] / 2
    boxes = np.stack([cy - half[0], cx - half[1], cy + half[0], cx + half[1]], 1)
    boxes = np.clip(boxes, 0, [h, w, h, w])
    kept = suppress(boxes, score[ys, xs], cfg.nms)
    boxes, scores = boxes[kept], score[ys, xs][kept]
    middles = np.stack([cy, cx], 1)[kept]

    label, n = components(prob > cfg.mask)
    final, count = np.zeros_like(label), 0
    for k in range(1, n + 1):
        py, px = np.nonzero(label == k)
        if len(py) < cfg.min_pixels:
            continue
        inside = [m for m in middles if int(m[0]) < h and int(m[1]) < w and label[int(m[0]), int(m[1])] == k]
        if len(inside) > 1 and len(py) > cfg.large:
            d = [((py + 0.5 - a) ** 2 + (px + 0.5 - b) ** 2) for a, b in inside]
            owner = np.argmin(d, 0)              # a large component is shared out among its centres
            final[py, px] = count + 1 + owner
            count += len(inside)
        else:
            count += 1
            final[py, px] = count
    return {"label": final, "count": count, "boxes": boxes, "scores": scores}
