import torch


def focal_loss(logits, target, alpha, beta):
    """The penalty-reduced focal loss of CornerNet, divided by the number of centres."""
    pred = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    positive = target.eq(1).to(pred.dtype)
    negative = (1 - positive) * (1 - target) ** beta
    loss = torch.log(pred) * (1 - pred) ** alpha * positive + torch.log(1 - pred) * pred**alpha * negative
    return -loss.sum() / positive.sum().clamp(min=1)


def gather(feature, index):
    """B x C x H x W at B x N flat positions: B x N x C."""
    flat = feature.flatten(2).transpose(1, 2)
    return flat.gather(1, index.unsqueeze(-1).expand(-1, -1, flat.shape[-1]))


def masked_l1(pred, target, mask):
    return ((pred - target).abs() * mask.unsqueeze(-1)).sum() / (2 * mask.sum() + 1e-4)


def to_corners(size, offset):
    size = size.clamp(min=0.1)
    return torch.cat([offset - size / 2, offset + size / 2], -1)


def giou(a, b, eps=1e-7):
    inter = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - inter
    return inter / (union + eps) - (hull - union) / (hull + eps)


class CenterLoss:
    def __init__(self, settings):
        self.s = settings

    def __call__(self, outputs, targets):
        mask = targets["mask"]
        size = gather(outputs["size"], targets["index"])
        offset = gather(outputs["offset"], targets["index"])
        overlap = giou(to_corners(size, offset), to_corners(targets["size"], targets["offset"]))
        parts = {
            "heatmap": focal_loss(outputs["heatmap"], targets["heatmap"], self.s.alpha, self.s.beta),
            "size": masked_l1(size, targets["size"], mask),
            "offset": masked_l1(offset, targets["offset"], mask),
            "giou": ((1 - overlap) * mask).sum() / mask.sum().clamp(min=1),
        }
        total = (
            parts["heatmap"]
            + self.s.size_weight * parts["size"]
            + self.s.offset_weight * parts["offset"]
            + self.s.giou_weight * parts["giou"]
        )
        return {"loss": total, **parts}
