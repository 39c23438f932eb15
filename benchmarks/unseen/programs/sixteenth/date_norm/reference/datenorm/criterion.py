import torch
from torch import nn

from .vocabulary import PAD


class LabelSmoothing(nn.Module):
    """Cross entropy with the smoothing spread over all symbols but the right one and padding, per token."""

    def __init__(self, symbols, smoothing):
        super().__init__()
        self.symbols, self.smoothing = symbols, smoothing

    def forward(self, logits, target):
        log_p = logits.log_softmax(dim=-1)
        wanted = torch.full_like(log_p, self.smoothing / (self.symbols - 2))
        wanted.scatter_(-1, target[..., None], 1.0 - self.smoothing)
        wanted[..., PAD] = 0.0
        token = -(wanted * log_p).sum(dim=-1)
        real = target != PAD
        return token[real].sum() / real.sum()


def accuracies(logits, target):
    """Share of right symbols, of dates that are right as a whole, and the perplexity without smoothing."""
    real = target != PAD
    right = (logits.argmax(dim=-1) == target) & real
    nll = -logits.log_softmax(dim=-1).gather(-1, target[..., None]).squeeze(-1)
    return {
        "symbols": right.sum() / real.sum(),
        "dates": (right | ~real).all(dim=1).float().mean(),
        "perplexity": torch.exp(nll[real].mean()),
    }
