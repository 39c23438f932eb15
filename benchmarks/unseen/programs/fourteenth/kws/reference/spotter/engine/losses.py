import torch
import torch.nn as nn
import torch.nn.functional as F


class SmoothedCrossEntropy(nn.Module):
    """Class-weighted cross entropy whose target mass eps is spread over all classes."""

    def __init__(self, eps, class_weights):
        super().__init__()
        self.eps = eps
        self.register_buffer("class_weights", torch.tensor(class_weights))

    def forward(self, logits, target):
        logp = F.log_softmax(logits, dim=-1)
        nll = -logp.gather(1, target.unsqueeze(1)).squeeze(1)
        uniform = -logp.mean(dim=-1)
        per_item = (1 - self.eps) * nll + self.eps * uniform
        w = self.class_weights.to(logits.dtype)[target]
        return (w * per_item).sum() / w.sum()
