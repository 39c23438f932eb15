import torch
from torch import nn

from .registry import LOSSES


def effective_weights(counts, beta):
    """Class weights after the effective number of samples, with mean 1."""
    counts = torch.as_tensor(counts, dtype=torch.float64).clamp(min=1)
    weight = (1 - beta) / (1 - beta ** counts)
    return weight / weight.mean()


@LOSSES.register()
class FaultLoss:
    def __init__(self, gamma, beta, huber, severity_weight, counts):
        self.gamma = gamma
        self.huber = huber
        self.severity_weight = severity_weight
        self.weights = effective_weights(counts, beta)

    def __call__(self, outputs, labels):
        logits, target = outputs["fault"], labels["fault"].long()
        logp = logits.log_softmax(dim=1).gather(1, target.unsqueeze(1)).squeeze(1)
        weight = self.weights.to(logits)[target]
        focal = -weight * (1 - logp.exp()) ** self.gamma * logp
        faulty = (target != 0).to(logits.dtype)
        gap = nn.functional.smooth_l1_loss(outputs["severity"], labels["severity"].to(logits.dtype), beta=self.huber, reduction="none")
        severity = (gap * faulty).sum() / faulty.sum().clamp(min=1)
        return {"loss": focal.sum() / weight.sum() + self.severity_weight * severity, "focal": focal.mean(), "severity": severity}
