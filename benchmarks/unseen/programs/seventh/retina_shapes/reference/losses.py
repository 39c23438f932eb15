import torch
import torch.nn.functional as F

from . import config
from .registry import LOSSES, TASK_UTILS


@LOSSES.register
class FocalLoss:
    def __init__(self, gamma, alpha, weight):
        self.gamma, self.alpha, self.weight = gamma, alpha, weight

    def __call__(self, pred, target, avg_factor):
        p = pred.sigmoid()
        pt = (1 - p) * target + p * (1 - target)
        focal = (self.alpha * target + (1 - self.alpha) * (1 - target)) * pt.pow(self.gamma)
        return self.weight * (F.binary_cross_entropy_with_logits(pred, target, reduction="none") * focal).sum() / avg_factor


@LOSSES.register
class SmoothL1Loss:
    def __init__(self, beta, weight):
        self.beta, self.weight = beta, weight

    def __call__(self, pred, target, avg_factor):
        return self.weight * F.smooth_l1_loss(pred, target, beta=self.beta, reduction="sum") / avg_factor


class RetinaCriterion:
    def __init__(self, cfg):
        self.anchors = TASK_UTILS.build(cfg.anchor_generator)
        self.coder = TASK_UTILS.build(cfg.bbox_coder)
        self.assigner = TASK_UTILS.build(cfg.train_cfg["assigner"])
        self.loss_cls, self.loss_bbox = (LOSSES.build(cfg.train_cfg[k]) for k in ("loss_cls", "loss_bbox"))
        self.size, self.num_classes = cfg.image_size, cfg.num_classes

    def __call__(self, outputs, targets):
        scores, deltas = outputs
        anchors = self.anchors.grid(self.size, deltas)
        cls_pred, cls_target, reg_pred, reg_target, num_pos = [], [], [], [], 0
        for score, delta, target in zip(scores, deltas, targets):
            target = target[target[:, 4] >= 0]
            gt, labels = target[:, :4].to(deltas), target[:, 4].long()
            assigned = self.assigner.assign(anchors, gt)
            positive, valid = assigned > 0, assigned >= 0
            onehot = torch.zeros_like(score)
            onehot[positive, labels[assigned[positive] - 1]] = 1.0
            cls_pred.append(score[valid]), cls_target.append(onehot[valid])
            reg_pred.append(delta[positive])
            reg_target.append(self.coder.encode(anchors[positive], gt[assigned[positive] - 1]))
            num_pos += int(positive.sum())
        factor = max(num_pos, 1)
        loss_cls = self.loss_cls(torch.cat(cls_pred), torch.cat(cls_target), factor)
        loss_bbox = self.loss_bbox(torch.cat(reg_pred), torch.cat(reg_target), factor)
        return {"loss": loss_cls + loss_bbox, "loss_cls": loss_cls, "loss_bbox": loss_bbox}


criterion = RetinaCriterion(config)
