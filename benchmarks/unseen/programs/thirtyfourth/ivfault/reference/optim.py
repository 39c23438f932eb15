import math

import torch

from .registry import OPTIMS, SCHEDULES


@OPTIMS.register("adamw")
def adamw(model, lr, betas, eps, weight_decay, head_factor, clip):
    """Vectors are not decayed; the two last layers learn faster."""
    groups = {}
    for name, p in model.named_parameters():
        head = name.startswith(("fault.", "level."))
        decay = p.ndim > 1 and name != "pool.query"
        groups.setdefault((head, decay), []).append(p)
    return torch.optim.AdamW(
        [{"params": ps, "lr": lr * (head_factor if head else 1.0), "weight_decay": weight_decay if decay else 0.0}
         for (head, decay), ps in sorted(groups.items())],
        lr=lr, betas=tuple(betas), eps=eps)


@SCHEDULES.register("warmup_cosine")
def warmup_cosine(optimizer, warmup, total, floor):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / (total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
