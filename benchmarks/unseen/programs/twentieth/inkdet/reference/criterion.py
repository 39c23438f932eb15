import torch
import torch.nn.functional as F

from .detector import CLASSES, RANGES, STRIDES, locations

RADIUS, ALPHA, GAMMA = 1.5, 0.25, 2.0


def assign(boxes, dtype):
    """For one page: class (-1: background) and distances l, t, r, b of every location."""
    points, level = locations(dtype=dtype)
    stride = torch.tensor(STRIDES, dtype=dtype)[level]
    low, high = torch.tensor(RANGES, dtype=dtype)[level].unbind(1)
    boxes = boxes[boxes[:, 4] >= 0].to(dtype)
    if not len(boxes):
        return torch.full((len(points),), -1), torch.zeros(len(points), 4, dtype=dtype)
    x, y = points[:, :1], points[:, 1:]
    dist = torch.stack([x - boxes[:, 0], y - boxes[:, 1], boxes[:, 2] - x, boxes[:, 3] - y], -1)
    cx, cy = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    reach = (RADIUS * stride).unsqueeze(1)
    near = ((x - cx).abs() < reach) & ((y - cy).abs() < reach)
    inside = dist.min(-1).values > 0
    largest = dist.max(-1).values
    fits = (largest > low.unsqueeze(1)) & (largest <= high.unsqueeze(1))
    area = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).expand(len(points), -1)
    area = area.masked_fill(~(near & inside & fits), 1e8)
    best, which = area.min(1)
    cls = torch.where(best < 1e8, boxes[which, 4].long(), torch.full_like(which, -1))
    return cls, dist[torch.arange(len(points)), which]


def centerness(d):
    l, t, r, b = d.unbind(-1)
    return torch.sqrt(torch.minimum(l, r) / torch.maximum(l, r) * torch.minimum(t, b) / torch.maximum(t, b))


def giou(p, q):
    """Of two sets of distances from the same locations."""
    area = lambda d: (d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3])
    inner, outer = torch.minimum(p, q), torch.maximum(p, q)
    overlap = area(inner)
    union = area(p) + area(q) - overlap
    hull = area(outer)
    return overlap / union - (hull - union) / hull


def detection_loss(out, targets):
    pairs = [assign(b, out["cls"].dtype) for b in targets]
    cls = torch.stack([c for c, _ in pairs])
    dist = torch.stack([d for _, d in pairs])
    pos = cls >= 0
    n = pos.sum().clamp(min=1)
    onehot = F.one_hot(cls.clamp(min=0), CLASSES).to(out["cls"].dtype) * pos.unsqueeze(-1)
    p = out["cls"].sigmoid()
    ce = F.binary_cross_entropy_with_logits(out["cls"], onehot, reduction="none")
    pt = p * onehot + (1 - p) * (1 - onehot)
    focal = ((ALPHA * onehot + (1 - ALPHA) * (1 - onehot)) * (1 - pt) ** GAMMA * ce).sum() / n
    c = centerness(dist[pos])
    box = ((1 - giou(out["reg"][pos], dist[pos])) * c).sum() / c.sum().clamp(min=1e-6)
    ctr = F.binary_cross_entropy_with_logits(out["ctr"][pos], c, reduction="sum") / n
    return {"loss": focal + 1.5 * box + ctr, "focal": focal, "box": box, "ctr": ctr}
