import torch
import torch.nn as nn
import torch.nn.functional as F


class DiceLoss(nn.Module):
    def __init__(self, ignore, smooth=1.0):
        super().__init__()
        self.ignore, self.smooth = ignore, smooth

    def forward(self, logits, target):
        k = logits.shape[1]
        valid = (target != self.ignore).unsqueeze(1).to(logits.dtype)
        onehot = F.one_hot(target.clamp(max=k - 1), k).permute(0, 3, 1, 2).to(logits.dtype) * valid
        prob = logits.softmax(dim=1) * valid
        inter = (prob * onehot).sum(dim=(0, 2, 3))
        total = prob.sum(dim=(0, 2, 3)) + onehot.sum(dim=(0, 2, 3))
        return 1.0 - ((2 * inter + self.smooth) / (total + self.smooth)).mean()


class SegLoss(nn.Module):
    def __init__(self, weights, dice, aux, ignore):
        super().__init__()
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64))
        self.dice_weight, self.aux_weight, self.ignore = dice, aux, ignore
        self.dice = DiceLoss(ignore)

    def ce(self, logits, target):
        return F.cross_entropy(logits, target, weight=self.weights.to(logits.dtype), ignore_index=self.ignore)

    def forward(self, outputs, target):
        main = self.ce(outputs["out"], target) + self.dice_weight * self.dice(outputs["out"], target)
        return main + self.aux_weight * self.ce(outputs["aux"], target)
