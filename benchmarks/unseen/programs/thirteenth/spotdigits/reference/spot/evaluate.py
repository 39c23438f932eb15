import numpy as np
import torch

from .boxes import BoxCoder, make_anchors, pairwise_iou


def nms(boxes, scores, threshold):
    order = torch.argsort(scores, descending=True)
    keep = []
    while len(order):
        i = order[0]
        keep.append(int(i))
        rest = order[1:]
        iou = pairwise_iou(boxes[i][None], boxes[rest])[0]
        order = rest[iou <= threshold]
    return keep


@torch.no_grad()
def detect(cfg, logits, deltas):
    """Of one image: boxes inside of it, their scores and classes."""
    anchors = make_anchors(cfg, deltas)
    scores, classes = torch.sigmoid(logits).max(-1)
    scores, top = scores.topk(min(cfg.post.pre_nms, len(scores)))
    boxes = BoxCoder(cfg.coder).decode(deltas[top], anchors[top])
    boxes[:, 0::2] = boxes[:, 0::2].clamp(0, cfg.image.width)
    boxes[:, 1::2] = boxes[:, 1::2].clamp(0, cfg.image.height)
    classes = classes[top]
    # classes must not suppress each other
    shifted = boxes + (classes * (max(cfg.image.width, cfg.image.height) + 1)).to(boxes.dtype)[:, None]
    keep = nms(shifted, scores, cfg.post.nms)[: cfg.post.keep]
    return boxes[keep], scores[keep], classes[keep]


def average_precision(hits, scores, total):
    order = np.argsort(-np.asarray(scores), kind="stable")
    tp = np.cumsum(np.asarray(hits, "float64")[order])
    precision = tp / np.arange(1, len(tp) + 1)
    recall = tp / max(total, 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(np.concatenate([[0.0], recall])) * precision))


def evaluate(cfg, outputs, targets):
    hits, scores, best = [], [], []
    for logits, deltas, target in zip(outputs["logits"], outputs["deltas"], targets):
        target = target[target[:, 4] >= 0].to(deltas.dtype)
        boxes, score, _ = detect(cfg, logits, deltas)
        iou = pairwise_iou(boxes, target[:, :4]).cpu().numpy()
        best += iou.max(0).tolist()
        taken = set()
        for i in range(len(boxes)):
            j = int(iou[i].argmax())
            hit = iou[i, j] >= 0.3 and j not in taken
            if hit:
                taken.add(j)
            hits.append(hit)
            scores.append(float(score[i]))
    best = np.array(best)
    return {
        "ap30": average_precision(hits, scores, len(best)),
        "recall30": float((best >= 0.3).mean()),
        "mean_best_iou": float(best.mean()),
    }
