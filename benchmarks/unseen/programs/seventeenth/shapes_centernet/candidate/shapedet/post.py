import numpy as np
import paddle
import paddle.nn.functional as F

from .objective import pick
from .settings import S


def detections(pred):
    """For each image the boxes in pixels, scores and labels that survive suppression, best first."""
    with paddle.no_grad():
        p = F.sigmoid(pred["heatmap"])
        p = paddle.where(p == F.max_pool2d(p, kernel_size=3, stride=1, padding=1), p, paddle.zeros_like(p))
        n, _, rows, cols = p.shape
        score, flat = paddle.topk(p.reshape([n, -1]), S.candidates, axis=1)
        label, cell = flat // (rows * cols), flat % (rows * cols)
        wh, xy = pick(pred["size"], cell), pick(pred["offset"], cell)
        grid = paddle.stack([cell % cols, cell // cols], axis=-1).astype(xy.dtype)
        xy = grid + xy
        box = paddle.concat([xy - wh / 2, xy + wh / 2], axis=-1) * S.down
    return [suppress(*one) for one in zip(box.numpy(), score.numpy(), label.numpy())]


def pairwise_iou(a, b):
    corner = np.maximum(a[:, None, :2], b[None, :, :2])
    extent = np.maximum(np.minimum(a[:, None, 2:], b[None, :, 2:]) - corner, 0)
    shared = extent[..., 0] * extent[..., 1]
    areas = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-9)


def suppress(box, score, label):
    iou = pairwise_iou(box, box) * (label[:, None] == label[None])
    kept = []
    for i in np.argsort(-score, kind="stable"):
        if all(iou[i, j] <= S.overlap for j in kept):
            kept.append(i)
    return box[kept], score[kept], label[kept]


def area_under(tp, positives):
    recall, precision = tp / positives, tp / (np.arange(len(tp)) + 1.0)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * envelope))


def match(found, truth, threshold):
    """Cumulated hits of the detections of one class, by falling score."""
    used = set()
    flags = []
    for i, _, box in sorted(found, key=lambda f: f[1], reverse=True):
        if len(truth[i]) == 0:
            flags.append(0.0)
            continue
        overlap = pairwise_iou(box[None], truth[i])[0]
        best = int(np.argmax(overlap))
        good = overlap[best] >= threshold and (i, best) not in used
        if good:
            used.add((i, best))
        flags.append(float(good))
    return np.cumsum(flags)


def mean_ap(pred, gt):
    found = detections(pred)
    true_box, true_label = gt["boxes"].numpy(), gt["classes"].numpy()
    ap, recall = [], []
    for c in range(len(S.labels)):
        truth = [b[l == c] for b, l in zip(true_box, true_label)]
        positives = sum(map(len, truth))
        if positives == 0:
            continue
        mine = [(i, s, b) for i, one in enumerate(found) for b, s, l in zip(*one) if l == c]
        curves = [match(mine, truth, t) for t in S.thresholds]
        ap.append([area_under(tp, positives) if len(tp) else 0.0 for tp in curves])
        recall.append(np.mean([tp[-1] / positives if len(tp) else 0.0 for tp in curves]))
    ap = np.array(ap)
    return {"mAP": float(ap.mean()), "AP_loose": float(ap[:, 0].mean()), "AR": float(np.mean(recall))}
