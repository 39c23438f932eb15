import math

import torch

MAX_LOG = math.log(1000.0 / 16)


def make_anchors(cfg, like):
    """[N, 4] corners, row by row over each level, ratios innermost."""
    levels = []
    for stride, scale in zip(cfg.anchors.strides, cfg.anchors.scales):
        h = -(-cfg.image.height // stride)
        w = -(-cfg.image.width // stride)
        ys = (torch.arange(h, dtype=like.dtype, device=like.device) + 0.5) * stride
        xs = (torch.arange(w, dtype=like.dtype, device=like.device) + 0.5) * stride
        cy, cx = torch.meshgrid(ys, xs, indexing="ij")
        base = []
        for ratio in cfg.anchors.ratios:  # height / width
            bw = stride * scale / math.sqrt(ratio)
            bh = stride * scale * math.sqrt(ratio)
            base.append([-bw / 2, -bh / 2, bw / 2, bh / 2])
        base = torch.tensor(base, dtype=like.dtype, device=like.device)
        centres = torch.stack([cx, cy, cx, cy], -1).reshape(-1, 1, 4)
        levels.append((centres + base).reshape(-1, 4))
    return torch.cat(levels)


def area(b):
    return (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])


def pairwise_iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-6)


def to_centre(b):
    wh = b[..., 2:] - b[..., :2]
    return torch.cat([b[..., :2] + 0.5 * wh, wh], -1)


class BoxCoder:
    def __init__(self, weights):
        self.weights = weights

    def encode(self, boxes, anchors):
        w = boxes.new_tensor(self.weights)
        b, a = to_centre(boxes), to_centre(anchors)
        return torch.cat([(b[..., :2] - a[..., :2]) / a[..., 2:], torch.log(b[..., 2:] / a[..., 2:])], -1) * w

    def decode(self, deltas, anchors):
        d = deltas / deltas.new_tensor(self.weights)
        a = to_centre(anchors)
        xy = a[..., :2] + d[..., :2] * a[..., 2:]
        wh = a[..., 2:] * torch.exp(d[..., 2:].clamp(max=MAX_LOG))
        return torch.cat([xy - 0.5 * wh, xy + 0.5 * wh], -1)


def giou(a, b):
    """Of paired boxes."""
    lt, rb = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    union = area(a) + area(b) - inter
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(-1)
    return inter / union - (hull - union) / hull
