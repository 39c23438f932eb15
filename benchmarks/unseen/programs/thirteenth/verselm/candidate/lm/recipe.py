import math

import paddle
from paddle.optimizer.lr import LRScheduler


class WarmCosine(LRScheduler):
    """Linear from lr / warmup to lr, then half a cosine to final * lr."""

    def __init__(self, lr, warmup, total, final):
        self.warmup, self.total, self.final = warmup, total, final
        super().__init__(learning_rate=lr)

    def get_lr(self):
        step = self.last_epoch
        if step < self.warmup:
            return self.base_lr * (step + 1) / self.warmup
        share = min((step - self.warmup) / (self.total - self.warmup), 1.0)
        low = self.base_lr * self.final
        return low + (self.base_lr - low) * (1 + math.cos(math.pi * share)) / 2


def decayed(model):
    """Matrices of the layers; no norms, biases, scalars of a head, or embeddings."""
    chosen = set()
    for name, p in model.named_parameters():
        if name.startswith("layers.") and name.endswith(".weight"):
            chosen.add(p.name)
    return chosen


def make_optimizer(model, t):
    names = decayed(model)
    return paddle.optimizer.AdamW(
        learning_rate=WarmCosine(t.lr, t.warmup, t.total, t.final),
        beta1=t.beta1,
        beta2=t.beta2,
        epsilon=1e-8,
        parameters=model.parameters(),
        weight_decay=t.weight_decay,
        apply_decay_param_fun=lambda name: name in names,
    )
