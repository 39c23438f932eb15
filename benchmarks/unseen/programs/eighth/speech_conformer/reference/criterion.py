import torch
from torch import nn


class LabelSmoothing(nn.Module):
    """Kullback-Leibler divergence from smoothed classes, a mean over the frames that count."""

    def __init__(self, classes, smoothing, ignore):
        super().__init__()
        self.classes, self.smoothing, self.ignore = classes, smoothing, ignore
        self.divergence = nn.KLDivLoss(reduction="none")

    def forward(self, logits, labels):
        logits, labels = logits.reshape(-1, self.classes), labels.reshape(-1)
        ignored = labels == self.ignore
        with torch.no_grad():
            target = torch.full_like(logits, self.smoothing / (self.classes - 1))
            target.scatter_(1, labels.masked_fill(ignored, 0)[:, None], 1.0 - self.smoothing)
        each = self.divergence(torch.log_softmax(logits, dim=1), target)
        return each.masked_fill(ignored[:, None], 0.0).sum() / (~ignored).sum()
