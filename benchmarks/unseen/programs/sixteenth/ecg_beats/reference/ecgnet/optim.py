import math

import torch


def parameter_groups(model, settings):
    spectral, decay, plain = [], [], []
    for name, parameter in model.named_parameters():
        if name.startswith("spectral."):
            spectral.append(parameter)
        elif parameter.ndim > 1:
            decay.append(parameter)
        else:
            plain.append(parameter)
    return [
        {"params": decay, "weight_decay": settings.weight_decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": spectral, "weight_decay": settings.weight_decay, "lr": settings.lr * settings.spectral_factor},
    ]


def make_optimizer(model, settings):
    return torch.optim.SGD(parameter_groups(model, settings), lr=settings.lr, momentum=settings.momentum, nesterov=True)


def warmup_cosine(total, warmup, floor):
    def factor(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        progress = min(1.0, (step - warmup) / max(1, total - warmup))
        return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))

    return factor


def make_scheduler(optimizer, settings, steps_per_epoch):
    factor = warmup_cosine(settings.epochs * steps_per_epoch, settings.warmup_steps, settings.floor)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
