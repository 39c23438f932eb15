from torch import optim

from .registry import SCHEDULES


def adamw(model, lr, weight_decay, betas, eps, clip):
    """Kernels decay; biases and what norms scale by do not."""
    decay = [p for p in model.parameters() if p.ndim > 1]
    still = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": still, "weight_decay": 0.0}]
    return optim.AdamW(groups, lr=lr, betas=betas, eps=eps)


@SCHEDULES.register()
class WarmupPoly(optim.lr_scheduler.LambdaLR):
    def __init__(self, optimizer, warmup, total, power, floor):
        def factor(step):
            if step < warmup:
                return (step + 1) / warmup
            done = min(step - warmup, total - warmup) / (total - warmup)
            return floor + (1 - floor) * (1 - done) ** power

        super().__init__(optimizer, factor)
