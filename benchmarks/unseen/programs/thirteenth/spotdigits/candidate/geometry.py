"""Anchors and boxes. Boxes are corners x1, y1, x2, y2."""

import math

import numpy as np
import paddle


def anchor_table(cfg):
    height, width = cfg.size
    rows = []
    for stride, scale in zip(cfg.strides, cfg.scales):
        for i in range(math.ceil(height / stride)):
            for j in range(math.ceil(width / stride)):
                cx, cy = (j + 0.5) * stride, (i + 0.5) * stride
                for ratio in cfg.ratios:
                    half_w = stride * scale / math.sqrt(ratio) / 2
                    half_h = stride * scale * math.sqrt(ratio) / 2
                    rows.append((cx - half_w, cy - half_h, cx + half_w, cy + half_h))
    return np.array(rows, "float64")


def sizes(b):
    return b[..., 2] - b[..., 0], b[..., 3] - b[..., 1]


def iou_table(a, b):
    a, b = a.unsqueeze(1), b.unsqueeze(0)
    iw = paddle.clip(paddle.minimum(a[..., 2], b[..., 2]) - paddle.maximum(a[..., 0], b[..., 0]), min=0)
    ih = paddle.clip(paddle.minimum(a[..., 3], b[..., 3]) - paddle.maximum(a[..., 1], b[..., 1]), min=0)
    inter = iw * ih
    (aw, ah), (bw, bh) = sizes(a), sizes(b)
    return inter / (aw * ah + bw * bh - inter + 1e-6)


def encode(boxes, anchors, weights):
    aw, ah = sizes(anchors)
    bw, bh = sizes(boxes)
    ax, ay = anchors[..., 0] + aw / 2, anchors[..., 1] + ah / 2
    bx, by = boxes[..., 0] + bw / 2, boxes[..., 1] + bh / 2
    wx, wy, ww, wh = weights
    return paddle.stack(
        [wx * (bx - ax) / aw, wy * (by - ay) / ah, ww * paddle.log(bw / aw), wh * paddle.log(bh / ah)], axis=-1
    )


def decode(deltas, anchors, weights):
    aw, ah = sizes(anchors)
    ax, ay = anchors[..., 0] + aw / 2, anchors[..., 1] + ah / 2
    tx, ty, tw, th = (deltas[..., k] / weights[k] for k in range(4))
    limit = math.log(1000.0 / 16)
    w = aw * paddle.exp(paddle.clip(tw, max=limit))
    h = ah * paddle.exp(paddle.clip(th, max=limit))
    x, y = ax + tx * aw, ay + ty * ah
    return paddle.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=-1)


def generalised_iou(a, b):
    iw = paddle.clip(paddle.minimum(a[:, 2], b[:, 2]) - paddle.maximum(a[:, 0], b[:, 0]), min=0)
    ih = paddle.clip(paddle.minimum(a[:, 3], b[:, 3]) - paddle.maximum(a[:, 1], b[:, 1]), min=0)
    inter = iw * ih
    (aw, ah), (bw, bh) = sizes(a), sizes(b)
    union = aw * ah + bw * bh - inter
    hw = paddle.maximum(a[:, 2], b[:, 2]) - paddle.minimum(a[:, 0], b[:, 0])
    hh = paddle.maximum(a[:, 3], b[:, 3]) - paddle.minimum(a[:, 1], b[:, 1])
    hull = hw * hh
    return inter / union - (hull - union) / hull
