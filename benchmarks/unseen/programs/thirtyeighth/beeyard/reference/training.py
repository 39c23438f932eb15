"""Optimizer, schedule and one step."""
import torch
from torch.optim.lr_scheduler import LinearLR, PolynomialLR, SequentialLR

from .objective import total_loss

WARMUP = 6
STEPS = 54


def make_optimizer(model):
    plain, decayed = [], []
    for name, parameter in model.named_parameters():
        (decayed if name.endswith("weight") and parameter.ndim == 4 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": 5e-3}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.02, momentum=0.9, nesterov=True)


def make_scheduler(optimizer):
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=WARMUP)
    fall = PolynomialLR(optimizer, total_iters=STEPS - WARMUP, power=0.9)
    return SequentialLR(optimizer, [warm, fall], milestones=[WARMUP])


def step(model, optimizer, image, target):
    optimizer.zero_grad()
    value = total_loss(model(image), target)
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    return value.detach()
