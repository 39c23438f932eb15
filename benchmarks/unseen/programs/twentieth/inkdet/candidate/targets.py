"""Locations, assignment, losses. All pages of a batch are treated at once."""
import numpy as np
import paddle
import paddle.nn.functional as F

from .modeling import LEVELS, N_DIGITS


def grid(size=96):
    """Rows x, y, stride, low, high of every location."""
    rows = []
    for lv in LEVELS:
        s = lv["stride"]
        y, x = np.mgrid[0:size // s, 0:size // s] * s + s // 2
        rows.append(np.stack([x.ravel(), y.ravel()] + [np.full(x.size, v) for v in (s, lv["low"], lv["high"])], 1))
    return np.concatenate(rows)


def match(targets, dtype, radius=1.5):
    """Digits [B, N] (-1 is background) and distances [B, N, 4]."""
    g = paddle.to_tensor(grid()).astype(dtype)
    x, y, stride, low, high = [g[:, i].reshape([1, -1, 1]) for i in range(5)]
    boxes = targets.astype(dtype)
    x1, y1, x2, y2, digit = [boxes[:, :, i].unsqueeze(1) for i in range(5)]
    sides = paddle.stack([x - x1, y - y1, x2 - x, y2 - y], axis=-1)
    centred = paddle.maximum((x - (x1 + x2) / 2).abs(), (y - (y1 + y2) / 2).abs()) < radius * stride
    longest = sides.max(axis=-1)
    ok = centred & (sides.min(axis=-1) > 0) & (longest > low) & (longest <= high) & (digit >= 0)
    area = (x2 - x1) * (y2 - y1) + paddle.zeros_like(longest)
    area = paddle.where(ok, area, paddle.full_like(area, 1e8))
    chosen = area.argmin(axis=-1, keepdim=True)
    hit = ok.any(axis=-1)
    label = paddle.take_along_axis(digit.expand(area.shape), chosen, axis=-1).squeeze(-1).astype("int64")
    label = paddle.where(hit, label, paddle.full_like(label, -1))
    pick = F.one_hot(chosen.squeeze(-1), area.shape[-1]).astype(dtype).unsqueeze(-1)
    return label, (sides * pick).sum(axis=2)


def centre_target(sides):
    lr, tb = sides[:, 0::2], sides[:, 1::2]
    return ((lr.min(axis=1) * tb.min(axis=1)) / (lr.max(axis=1) * tb.max(axis=1))).sqrt()


def giou_loss(pred, true):
    def extent(d):
        return (d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3])
    both = extent(paddle.minimum(pred, true))
    union = extent(pred) + extent(true) - both
    hull = extent(paddle.maximum(pred, true))
    return 1 - both / union + 1 - union / hull


def criterion(out, targets):
    label, sides = match(targets, out["cls"].dtype)
    fg = (label >= 0).flatten()
    count = paddle.clip(fg.astype(out["cls"].dtype).sum(), min=1.0)
    onehot = F.one_hot(paddle.clip(label, min=0), N_DIGITS).astype(out["cls"].dtype)
    onehot = onehot * (label >= 0).astype(onehot.dtype).unsqueeze(-1)
    focal = F.sigmoid_focal_loss(out["cls"], onehot, normalizer=count.reshape([1]), alpha=0.25, gamma=2.0,
                                 reduction="sum")
    index = paddle.nonzero(fg).flatten()
    true = paddle.index_select(sides.reshape([-1, 4]), index)
    pred = paddle.index_select(out["reg"].reshape([-1, 4]), index)
    weight = centre_target(true)
    box = (giou_loss(pred, true) * weight).sum() / paddle.clip(weight.sum(), min=1e-6)
    logits = paddle.index_select(out["ctr"].flatten(), index)
    centre = F.binary_cross_entropy_with_logits(logits, weight, reduction="sum") / count
    return dict(loss=focal + 1.5 * box + centre, focal=focal, box=box, ctr=centre)
