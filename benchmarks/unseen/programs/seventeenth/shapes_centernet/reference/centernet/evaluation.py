import numpy as np
import torch
from torch.nn import functional as F

from .losses import gather


@torch.no_grad()
def decode(outputs, stride, topk):
    """Peaks of the heatmap as boxes in pixels: B x K x 4, scores and classes B x K."""
    scores = torch.sigmoid(outputs["heatmap"])
    peaks = F.max_pool2d(scores, 3, 1, 1)
    scores = scores * (scores == peaks)
    batch, _, height, width = scores.shape
    best, where = scores.flatten(1).topk(topk)
    classes = where // (height * width)
    index = where % (height * width)
    size, offset = gather(outputs["size"], index), gather(outputs["offset"], index)
    center = torch.stack([index % width, index // width], -1) + offset
    boxes = torch.cat([center - size / 2, center + size / 2], -1) * stride
    return boxes.cpu().numpy(), best.cpu().numpy(), classes.cpu().numpy()


def box_iou(box, boxes):
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    inter = np.clip(high - low, 0, None).prod(1)
    area = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return inter / np.maximum(area - inter, 1e-9)


def nms(boxes, scores, classes, threshold):
    """Greedy, class by class; returns the kept positions, best first."""
    order, keep = np.argsort(-scores, kind="stable"), []
    while order.size:
        first, rest = order[0], order[1:]
        keep.append(int(first))
        suppressed = (box_iou(boxes[first], boxes[rest]) > threshold) & (classes[rest] == classes[first])
        order = rest[~suppressed]
    return np.array(keep, dtype=np.int64)


def interpolated_ap(recall, precision):
    recall = np.concatenate([[0.0], recall, [1.0]])
    precision = np.concatenate([[0.0], precision, [0.0]])
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.flatnonzero(recall[1:] != recall[:-1])
    return float(((recall[steps + 1] - recall[steps]) * precision[steps + 1]).sum())


def class_ap(detections, truths, threshold):
    """detections: (image, score, box), truths: image -> N x 4; returns AP and recall."""
    total = sum(len(t) for t in truths.values())
    taken = {image: np.zeros(len(t), bool) for image, t in truths.items()}
    hits = np.zeros(len(detections))
    for k, (image, _, box) in enumerate(sorted(detections, key=lambda d: -d[1])):
        if not len(truths.get(image, ())):
            continue
        overlap = box_iou(box, truths[image])
        j = overlap.argmax()
        if overlap[j] >= threshold and not taken[image][j]:
            hits[k], taken[image][j] = 1, True
    tp = hits.cumsum()
    return interpolated_ap(tp / total, tp / np.arange(1, len(hits) + 1)), tp[-1] / total


def evaluate(outputs, targets, cfg):
    boxes, scores, classes = decode(outputs, cfg.stride, cfg.test.topk)
    true_boxes, true_classes = targets["boxes"].cpu().numpy(), targets["classes"].cpu().numpy()
    kept = [nms(b, s, c, cfg.test.nms_iou) for b, s, c in zip(boxes, scores, classes)]
    aps, recalls = [], []
    for label in range(len(cfg.classes)):
        truths = {i: true_boxes[i][true_classes[i] == label] for i in range(len(boxes))}
        if not any(len(t) for t in truths.values()):
            continue  # a class that does not occur counts for nothing
        found = [
            (i, scores[i][k], boxes[i][k]) for i in range(len(boxes)) for k in kept[i] if classes[i][k] == label
        ]
        if not found:
            aps.append([0.0] * len(cfg.test.iou_thresholds))
            recalls.append(0.0)
            continue
        results = [class_ap(found, truths, t) for t in cfg.test.iou_thresholds]
        aps.append([ap for ap, _ in results])
        recalls.append(np.mean([recall for _, recall in results]))
    return {"mAP": float(np.mean(aps)), "AP_loose": float(np.mean([a[0] for a in aps])), "AR": float(np.mean(recalls))}
