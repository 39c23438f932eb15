import numpy as np
import paddle
import paddle.nn.functional as F
from geometry import anchor_table, decode


def iou_matrix(a, b):
    lt = np.maximum(a[:, None, :2], b[None, :, :2])
    rb = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.clip(rb - lt, 0, None).prod(-1)
    area_a, area_b = (x[:, 2:] - x[:, :2] for x in (a, b))
    return inter / (area_a.prod(-1)[:, None] + area_b.prod(-1)[None] - inter + 1e-6)


def suppress(boxes, scores, threshold):
    kept = []
    alive = np.ones(len(boxes), bool)
    for i in np.argsort(-scores, kind="stable"):
        if not alive[i]:
            continue
        kept.append(i)
        alive &= iou_matrix(boxes[i : i + 1], boxes)[0] <= threshold
    return np.array(kept, "int64")


def find(cfg, logits, deltas):
    """Boxes, scores, classes of one image, as arrays."""
    p = F.sigmoid(logits)
    scores, classes = p.max(axis=-1), p.argmax(axis=-1)
    scores, top = paddle.topk(scores, min(cfg.pre_nms, scores.shape[0]))
    anchors = paddle.to_tensor(anchor_table(cfg)).astype(deltas.dtype)
    boxes = decode(paddle.gather(deltas, top), paddle.gather(anchors, top), cfg.coder).numpy()
    scores, classes = scores.numpy(), paddle.gather(classes, top).numpy()
    height, width = cfg.size
    boxes[:, [0, 2]] = boxes[:, [0, 2]].clip(0, width)
    boxes[:, [1, 3]] = boxes[:, [1, 3]].clip(0, height)
    offset = classes[:, None].astype(boxes.dtype) * (max(cfg.size) + 1)
    kept = suppress(boxes + offset, scores, cfg.nms)[: cfg.keep]
    return boxes[kept], scores[kept], classes[kept]


def interpolated_ap(records, total):
    records = sorted(records, key=lambda r: -r[0])
    tp, curve = 0, []
    for rank, (_, hit) in enumerate(records, 1):
        tp += hit
        curve.append((tp / max(total, 1), tp / rank))
    ap, best, k = 0.0, 0.0, len(curve)
    while k:
        k -= 1
        best = max(best, curve[k][1])
        before = curve[k - 1][0] if k else 0.0
        ap += (curve[k][0] - before) * best
    return ap


def score(cfg, outputs, targets):
    records, best = [], []
    for b in range(targets.shape[0]):
        truth = targets[b].numpy()
        truth = truth[truth[:, 4] >= 0][:, :4]
        boxes, scores, _ = find(cfg, outputs["logits"][b], outputs["deltas"][b])
        iou = iou_matrix(boxes, truth)
        best.extend(iou.max(axis=0))
        free = set(range(len(truth)))
        for row, s in zip(iou, scores):
            j = int(np.argmax(row))
            hit = bool(row[j] >= 0.3) and j in free
            free.discard(j if hit else None)
            records.append((float(s), hit))
    best = np.asarray(best)
    return {
        "ap30": interpolated_ap(records, len(best)),
        "recall30": float(np.mean(best >= 0.3)),
        "mean_best_iou": float(np.mean(best)),
    }
