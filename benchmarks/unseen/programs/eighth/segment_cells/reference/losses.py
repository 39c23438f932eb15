import torch
from torch import nn
from torch.nn import functional as F

from .registry import LOSSES


@LOSSES.register()
class DiceLoss(nn.Module):
    """One minus the overlap, picture by picture."""

    def __init__(self, smooth):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, labels):
        p, t = torch.sigmoid(logits).flatten(1), labels["mask"].flatten(1)
        both = (p * t).sum(dim=1)
        score = (2 * both + self.smooth) / ((p * p).sum(dim=1) + (t * t).sum(dim=1) + self.smooth)
        return (1 - score).mean()


@LOSSES.register()
class BoundaryLoss(nn.Module):
    """Bokhovkin and Burnaev 2019: one minus F1 of boundaries, which pooling makes differentiable."""

    def __init__(self, width, reach):
        super().__init__()
        self.width, self.reach = width, reach

    def edge(self, x):
        return F.max_pool2d(1 - x, self.width, stride=1, padding=(self.width - 1) // 2) - (1 - x)

    def forward(self, logits, labels):
        p, t = self.edge(torch.sigmoid(logits)), self.edge(labels["mask"])
        pad = (self.reach - 1) // 2
        near_p = F.max_pool2d(p, self.reach, stride=1, padding=pad)
        near_t = F.max_pool2d(t, self.reach, stride=1, padding=pad)
        dims = (1, 2, 3)
        precision = (p * near_t).sum(dim=dims) / (p.sum(dim=dims) + 1e-7)
        recall = (near_p * t).sum(dim=dims) / (t.sum(dim=dims) + 1e-7)
        return (1 - 2 * precision * recall / (precision + recall + 1e-7)).mean()


@LOSSES.register()
class WeightedBCE(nn.Module):
    """Cross entropy with a weight for each pixel, which borders between cells raise."""

    def __init__(self, pos_weight):
        super().__init__()
        self.pos_weight = pos_weight

    def forward(self, logits, labels):
        t, w = labels["mask"], labels["weight"]
        each = F.binary_cross_entropy_with_logits(logits, t, reduction="none", pos_weight=logits.new_tensor(self.pos_weight))
        return (each * w).sum() / w.sum()


class Criterion:
    def __init__(self, config):
        self.aux_weight = config["aux_weight"]
        self.terms = []
        for term in config["terms"]:
            options = dict(term)
            weight = options.pop("weight")
            self.terms.append((options["type"], weight, LOSSES.build(options)))

    def __call__(self, outputs, labels):
        labels = {k: v.to(outputs["mask"].dtype) for k, v in labels.items()}
        parts = {}
        for name, weight, term in self.terms:
            parts[name] = weight * (term(outputs["mask"], labels) + self.aux_weight * term(outputs["aux"], labels))
        parts["loss"] = sum(parts.values())
        return parts
