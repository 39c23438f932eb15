import torch

from .detector import CLASSES, locations


def iou(a, b):
    lt, rb = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    size = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    return inter / (size(a)[:, None] + size(b)[None] - inter)


def nms(boxes, scores, digits, threshold):
    order = scores.argsort(descending=True, stable=True)
    keep = []
    while len(order):
        i = order[0]
        keep.append(int(i))
        order = order[1:]
        rival = digits[order] == digits[i]
        order = order[~(rival & (iou(boxes[i:i + 1], boxes[order])[0] > threshold))]
    return torch.tensor(keep, dtype=torch.long)


def detections(cls, reg, ctr, size=96, top=200, threshold=0.5, most=60):
    """Boxes, scores, digits of one page, best first. Suppression is done digit by digit."""
    points, _ = locations(size, reg.dtype)
    score = (cls.sigmoid() * ctr.sigmoid().unsqueeze(1)).sqrt()
    s, flat = score.flatten().topk(top)
    at, digit = flat // CLASSES, flat % CLASSES
    xy, d = points[at], reg[at]
    boxes = torch.cat([xy - d[:, :2], xy + d[:, 2:]], 1).clamp(0, size)
    keep = nms(boxes, s, digit, threshold)[:most]
    return boxes[keep], s[keep], digit[keep]


def average_precision(out, targets, threshold):
    """Mean over the digits that occur; area under the interpolated curve."""
    found = [detections(out["cls"][i], out["reg"][i], out["ctr"][i]) for i in range(len(targets))]
    values, hits, total = [], 0, 0
    for c in range(CLASSES):
        truth = [t[t[:, 4] == c][:, :4] for t in targets]
        n = sum(len(t) for t in truth)
        if n == 0:
            continue
        rows = sorted(((float(s), i, b) for i, (bs, ss, ds) in enumerate(found)
                       for b, s, d in zip(bs, ss, ds) if d == c), key=lambda r: -r[0])
        used = [set() for _ in truth]
        tp = []
        for _, i, b in rows:
            o = iou(b[None], truth[i].to(b.dtype))[0] if len(truth[i]) else torch.zeros(0)
            j = int(o.argmax()) if len(o) else -1
            good = j >= 0 and float(o[j]) >= threshold and j not in used[i]
            used[i] |= {j} if good else set()
            tp.append(float(good))
        tp = torch.tensor(tp, dtype=torch.float64)
        recall, precision = tp.cumsum(0) / n, tp.cumsum(0) / torch.arange(1, len(tp) + 1)
        precision = precision.flip(0).cummax(0).values.flip(0) if len(tp) else precision
        values.append(float((torch.diff(recall, prepend=torch.zeros(1).double()) * precision).sum()))
        hits, total = hits + float(tp.sum()), total + n
    return sum(values) / max(len(values), 1), hits / max(total, 1)
