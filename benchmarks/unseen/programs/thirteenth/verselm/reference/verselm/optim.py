import math

import torch

NO_DECAY = ("norm", "bias", "a_log", "skip", "temperature", "embed")


def build_optimizer(cfg, model):
    decay, rest = [], []
    for name, p in model.named_parameters():
        (rest if any(word in name for word in NO_DECAY) else decay).append(p)
    t = cfg.train
    return torch.optim.AdamW(
        [{"params": decay, "weight_decay": t.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=t.lr,
        betas=t.betas,
        eps=1e-8,
    )


def build_scheduler(cfg, optimizer):
    t = cfg.train

    def factor(step):
        if step < t.warmup:
            return (step + 1) / t.warmup
        done = min(1.0, (step - t.warmup) / (t.total - t.warmup))
        return t.final + (1 - t.final) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
