import math

import torch

BASE_LR = 0.08
WARMUP = 2
EPOCHS = 8


def build_optimizer(model):
    decay, plain = [], []
    for name, p in model.student.named_parameters():
        (plain if p.ndim == 1 or name == "proto" else decay).append(p)
    groups = [{"params": decay, "weight_decay": 5e-3}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=BASE_LR, momentum=0.9, nesterov=True)


def build_scheduler(optimizer):
    def factor(epoch):
        if epoch < WARMUP:
            return (epoch + 1) / (WARMUP + 1)
        t = (epoch - WARMUP) / (EPOCHS - WARMUP)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(t, 1.0)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
