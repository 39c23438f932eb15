import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def effective_number_weights(targets, classes, beta):
    """Cui et al., Class-balanced loss based on effective number of samples; the weights sum to the number of classes."""
    counts = np.bincount(targets, minlength=classes)
    weights = (1.0 - beta) / (1.0 - np.power(beta, counts))
    return weights / weights.sum() * classes


class FocalLoss(nn.Module):
    def __init__(self, weights, gamma):
        super().__init__()
        self.weights = torch.as_tensor(weights)
        self.gamma = gamma

    def forward(self, logits, targets):
        log_p = F.log_softmax(logits, dim=-1).gather(1, targets[:, None]).squeeze(1)
        weights = self.weights.to(logits)[targets]
        focal = (1.0 - log_p.exp()) ** self.gamma
        return -(weights * focal * log_p).sum() / weights.sum()
