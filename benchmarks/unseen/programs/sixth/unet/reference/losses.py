import torch
import torch.nn as nn
import torch.nn.functional as F


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        prob = torch.sigmoid(logits).flatten(1)
        target = target.flatten(1)
        inter = (prob * target).sum(1)
        denom = prob.pow(2).sum(1) + target.pow(2).sum(1)
        dice = (2 * inter + self.smooth) / (denom + self.smooth)
        return (1 - dice).mean()


class SegLoss(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.dice = DiceLoss(cfg.smooth)

    def single(self, logits, target):
        pos = torch.as_tensor(self.cfg.pos_weight, dtype=logits.dtype, device=logits.device)
        bce = F.binary_cross_entropy_with_logits(logits, target, pos_weight=pos)
        return self.cfg.bce_weight * bce + self.cfg.dice_weight * self.dice(logits, target)

    def forward(self, outputs, target):
        target = target.to(outputs["out"].dtype)
        return self.single(outputs["out"], target) + self.cfg.aux_weight * self.single(outputs["aux"], target)
