import torch
from torch import nn
from torch.nn import functional as F

from .boxes import BoxCoder, giou, make_anchors, pairwise_iou


class Matcher:
    """Index of the object of each anchor; -1 background, -2 not counted."""

    def __init__(self, positive, negative):
        self.positive, self.negative = positive, negative

    def __call__(self, anchors, boxes):
        iou = pairwise_iou(anchors, boxes)
        best, index = iou.max(1)
        out = torch.full_like(index, -2)
        out[best < self.negative] = -1
        out = torch.where(best >= self.positive, index, out)
        # every object keeps its best anchor, however poor
        for j, i in enumerate(iou.argmax(0).tolist()):
            out[i] = j
        return out


class DetectionLoss(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.match = Matcher(cfg.match.positive, cfg.match.negative)
        self.coder = BoxCoder(cfg.coder)

    def focal(self, logits, targets):
        p = torch.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        pt = p * targets + (1 - p) * (1 - targets)
        alpha = self.cfg.loss.alpha * targets + (1 - self.cfg.loss.alpha) * (1 - targets)
        return (alpha * (1 - pt) ** self.cfg.loss.gamma * ce).sum()

    def forward(self, outputs, targets):
        logits, deltas = outputs["logits"], outputs["deltas"]
        anchors = make_anchors(self.cfg, deltas)
        targets = targets.to(deltas.dtype)
        cls = box = iou = 0.0
        positives = 0
        for score, delta, target in zip(logits, deltas, targets):
            target = target[target[:, 4] >= 0]
            with torch.no_grad():
                index = self.match(anchors, target[:, :4])
            pos = torch.nonzero(index >= 0)[:, 0]
            gt = target[index[pos]]
            onehot = torch.zeros_like(score)
            onehot[pos, gt[:, 4].long()] = 1.0
            counted = index > -2
            cls = cls + self.focal(score[counted], onehot[counted])
            box = box + F.smooth_l1_loss(
                delta[pos], self.coder.encode(gt[:, :4], anchors[pos]), beta=self.cfg.loss.beta, reduction="sum"
            )
            iou = iou + (1 - giou(self.coder.decode(delta[pos], anchors[pos]), gt[:, :4])).sum()
            positives += len(pos)
        n = max(positives, 1)
        cls, box, iou = cls / n, box / n * self.cfg.loss.box, iou / n * self.cfg.loss.giou
        return {"loss": cls + box + iou, "cls": cls, "box": box, "giou": iou}
