import math

import torch

from .registry import TASK_UTILS


@TASK_UTILS.register
class AnchorGenerator:
    def __init__(self, strides, ratios, octave_base_scale, scales_per_octave):
        self.strides = strides
        scales = [octave_base_scale * 2 ** (i / scales_per_octave) for i in range(scales_per_octave)]
        self.base = []
        for s in strides:
            cell = []
            for ratio in ratios:
                for scale in scales:
                    w, h = s * scale / math.sqrt(ratio), s * scale * math.sqrt(ratio)
                    cell.append([-w / 2, -h / 2, w / 2, h / 2])
            self.base.append(torch.tensor(cell, dtype=torch.float64))

    def grid(self, image_size, like):
        out = []
        for s, base in zip(self.strides, self.base):
            n = image_size // s
            shift = (torch.arange(n, dtype=torch.float64) + 0.5) * s
            y, x = torch.meshgrid(shift, shift, indexing="ij")
            shifts = torch.stack([x, y, x, y], -1).view(-1, 1, 4)
            out.append((shifts + base).view(-1, 4))
        return torch.cat(out).to(like)


def bbox_overlaps(a, b, eps=1e-6):
    """IoU of every box of a with every box of b."""
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area_a[:, None] + area_b[None] - inter).clamp(min=eps)


@TASK_UTILS.register
class DeltaXYWHCoder:
    def __init__(self, means, stds, wh_ratio_clip):
        self.means, self.stds, self.max_ratio = means, stds, abs(math.log(wh_ratio_clip))

    def encode(self, anchors, gt):
        pw, ph = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
        gw, gh = gt[:, 2] - gt[:, 0], gt[:, 3] - gt[:, 1]
        dx = ((gt[:, 0] + gt[:, 2]) - (anchors[:, 0] + anchors[:, 2])) * 0.5 / pw
        dy = ((gt[:, 1] + gt[:, 3]) - (anchors[:, 1] + anchors[:, 3])) * 0.5 / ph
        d = torch.stack([dx, dy, torch.log(gw / pw), torch.log(gh / ph)], -1)
        return (d - d.new_tensor(self.means)) / d.new_tensor(self.stds)

    def decode(self, anchors, deltas, size):
        d = deltas * deltas.new_tensor(self.stds) + deltas.new_tensor(self.means)
        dwh = d[:, 2:].clamp(-self.max_ratio, self.max_ratio)
        wh = anchors[:, 2:] - anchors[:, :2]
        centre = (anchors[:, 2:] + anchors[:, :2]) * 0.5 + wh * d[:, :2]
        half = wh * dwh.exp() * 0.5
        return torch.cat([centre - half, centre + half], -1).clamp(0, size)


@TASK_UTILS.register
class MaxIoUAssigner:
    """0: background, -1: ignored, k: the k-th ground truth, counted from 1."""

    def __init__(self, pos_iou, neg_iou):
        self.pos_iou, self.neg_iou = pos_iou, neg_iou

    def assign(self, anchors, gt):
        assigned = anchors.new_full((len(anchors),), -1, dtype=torch.long)
        if len(gt) == 0:
            return assigned.zero_()
        iou = bbox_overlaps(anchors, gt)
        best, which = iou.max(1)
        assigned[best < self.neg_iou] = 0
        positive = best >= self.pos_iou
        assigned[positive] = which[positive] + 1
        for k in range(len(gt)):                      # every object gets its best anchor
            assigned[iou[:, k].argmax()] = k + 1
        return assigned
