import torch
from torch import nn
from torch.nn import functional as F

from .registry import LOSSES


def candidate_scores(logits, target, negatives):
    positive = logits.gather(-1, target.unsqueeze(-1))
    negative = logits.gather(-1, negatives)
    unusable = (negatives == target.unsqueeze(-1)) | (negatives == 0)
    return positive, negative, unusable


@LOSSES.register("sampled_softmax")
class SampledSoftmax(nn.Module):
    def __init__(self, temperature=1.0):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits, labels):
        target = labels["target"]
        pos, neg, unusable = candidate_scores(logits, target, labels["negatives"])
        neg = neg.masked_fill(unusable, -1e9)
        scores = torch.cat([pos, neg], dim=-1) / self.temperature
        nll = -F.log_softmax(scores, dim=-1)[..., 0]
        weight = (target != 0).to(nll.dtype)
        return (nll * weight).sum() / weight.sum().clamp(min=1.0)


@LOSSES.register("bpr")
class BPR(nn.Module):
    def forward(self, logits, labels):
        target = labels["target"]
        pos, neg, unusable = candidate_scores(logits, target, labels["negatives"])
        weight = (~unusable & (target != 0).unsqueeze(-1)).to(logits.dtype)
        return -(F.logsigmoid(pos - neg) * weight).sum() / weight.sum().clamp(min=1.0)
