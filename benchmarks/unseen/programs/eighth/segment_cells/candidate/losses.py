import paddle
import paddle.nn.functional as F
from paddle import nn

from .registry import LOSSES


@LOSSES.register()
class DiceLoss(nn.Layer):
    """One minus the overlap, picture by picture."""

    def __init__(self, smooth):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, labels):
        p, t = F.sigmoid(logits).flatten(1), labels["mask"].flatten(1)
        both = (p * t).sum(axis=1)
        sizes = p.square().sum(axis=1) + t.square().sum(axis=1)
        return (1 - (2 * both + self.smooth) / (sizes + self.smooth)).mean()


@LOSSES.register()
class BoundaryLoss(nn.Layer):
    """Bokhovkin and Burnaev 2019: one minus F1 of boundaries, which pooling makes differentiable."""

    def __init__(self, width, reach):
        super().__init__()
        self.width, self.reach = width, reach

    @staticmethod
    def widest(x, size):
        return F.max_pool2d(x, size, stride=1, padding=(size - 1) // 2)

    def edge(self, x):
        outside = 1 - x
        return self.widest(outside, self.width) - outside

    def forward(self, logits, labels):
        p, t = self.edge(F.sigmoid(logits)), self.edge(labels["mask"])
        near_p = self.widest(p, self.reach)
        near_t = self.widest(t, self.reach)
        axes = [1, 2, 3]
        precision = (p * near_t).sum(axis=axes) / (p.sum(axis=axes) + 1e-7)
        recall = (near_p * t).sum(axis=axes) / (t.sum(axis=axes) + 1e-7)
        return (1 - 2 * precision * recall / (precision + recall + 1e-7)).mean()


@LOSSES.register()
class WeightedBCE(nn.Layer):
    """Cross entropy with a weight for each pixel, which borders between cells raise."""

    def __init__(self, pos_weight):
        super().__init__()
        self.pos_weight = pos_weight

    def forward(self, logits, labels):
        t, w = labels["mask"], labels["weight"]
        factor = paddle.to_tensor([self.pos_weight], dtype=logits.dtype)
        each = F.binary_cross_entropy_with_logits(logits, t, reduction="none", pos_weight=factor)
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
        labels = {k: v.astype(outputs["mask"].dtype) for k, v in labels.items()}
        parts = {}
        for name, weight, term in self.terms:
            main, side = term(outputs["mask"], labels), term(outputs["aux"], labels)
            parts[name] = weight * (main + self.aux_weight * side)
        parts["loss"] = sum(parts.values())
        return parts
