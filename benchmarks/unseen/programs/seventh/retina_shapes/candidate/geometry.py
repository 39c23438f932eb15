"""Anchors, overlaps and the coding of boxes."""
import itertools
import math

import numpy as np
import paddle

from .workspace import register


@register
class AnchorGrid:
    def __init__(self, steps, aspects, base, octaves):
        self.steps, self.aspects, self.base, self.octaves = steps, aspects, base, octaves

    def numpy(self, size):
        rows = []
        for step in self.steps:
            cells = size // step
            for i, j in itertools.product(range(cells), range(cells)):
                cx, cy = (j + 0.5) * step, (i + 0.5) * step
                for aspect in self.aspects:
                    for k in range(self.octaves):
                        side = step * self.base * 2 ** (k / self.octaves)
                        w, h = side / math.sqrt(aspect), side * math.sqrt(aspect)
                        rows.append((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2))
        return np.array(rows, "float64")

    def __call__(self, size, dtype):
        return paddle.to_tensor(self.numpy(size)).astype(dtype)


def area(b):
    return (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])


def overlaps(one, other):
    corner = paddle.minimum(one.unsqueeze(1)[..., 2:], other.unsqueeze(0)[..., 2:])
    origin = paddle.maximum(one.unsqueeze(1)[..., :2], other.unsqueeze(0)[..., :2])
    shared = (corner - origin).clip(min=0).prod(axis=-1)
    union = area(one).unsqueeze(1) + area(other).unsqueeze(0) - shared
    return shared / union.clip(min=1e-6)


def centre_form(b):
    size = b[:, 2:] - b[:, :2]
    return b[:, :2] + size / 2, size


@register
class BoxCodec:
    def __init__(self, deviation, clip):
        self.deviation, self.limit = list(deviation), -math.log(clip)

    def encode(self, anchors, truth):
        (ca, sa), (ct, st) = centre_form(anchors), centre_form(truth)
        code = paddle.concat([(ct - ca) / sa, paddle.log(st) - paddle.log(sa)], axis=-1)
        return code / paddle.to_tensor(self.deviation, dtype=code.dtype)

    def decode(self, anchors, code, size):
        code = code * paddle.to_tensor(self.deviation, dtype=code.dtype)
        centre, extent = centre_form(anchors)
        centre = centre + extent * code[:, :2]
        extent = extent * paddle.exp(code[:, 2:].clip(-self.limit, self.limit))
        return paddle.concat([centre - extent / 2, centre + extent / 2], axis=-1).clip(0, size)


def match(anchors, truth, positive, negative):
    """For each anchor the index of its object, -1 for background, -2 where neither is sure."""
    iou = overlaps(anchors, truth).numpy()
    owner = iou.argmax(1)
    quality = iou.max(1)
    owner = np.where(quality >= positive, owner, np.where(quality < negative, -1, -2))
    owner[iou.argmax(0)] = np.arange(iou.shape[1])
    return owner
