import torch
from torch import nn
from torch.optim.lr_scheduler import ChainedScheduler, LinearLR, MultiStepLR


def sgd(model):
    decay, plain = [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            weight = name == "weight" and isinstance(module, (nn.Linear, nn.Conv2d))
            (decay if weight else plain).append(parameter)
    groups = [{"params": decay, "weight_decay": 1e-3}, {"params": plain}]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)


def schedule(optimizer):
    return ChainedScheduler(
        [LinearLR(optimizer, start_factor=0.25, total_iters=6), MultiStepLR(optimizer, milestones=[18, 30], gamma=0.3)]
    )


def step(model, optimizer, batch, loss):
    planes, moves, mask, targets = batch
    optimizer.zero_grad()
    terms = loss(model(planes, moves, mask), targets)
    terms["loss"].backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    optimizer.step()
    return {"loss": terms["loss"].detach(), "norm": norm.detach()}
