"""Optimizer, schedule, an epoch of training, evaluation."""

import torch
from torch import nn

from .metric import accuracy


def build_optimizer(model, lr=0.01):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)


def build_scheduler(optimizer, step_size=2):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=step_size, gamma=0.1)


def train_one_epoch(model, loader, optimizer, log, epoch):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for _, (images, labels) in log.batches(loader, epoch):
        outputs = model(images)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        (acc,) = accuracy(outputs, labels, topk=(1,))
        log.step(samples=len(labels), acc=acc, lr=optimizer.param_groups[0]["lr"], loss=loss)


def save(stem, model, optimizer, scheduler):
    """What a training needs to go on: ``stem.pth``."""
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({name: part.state_dict() for name, part in parts.items()}, f"{stem}.pth")


def load(stem, model, optimizer, scheduler):
    state = torch.load(f"{stem}.pth", weights_only=True)
    for part, name in ((model, "model"), (optimizer, "optimizer"), (scheduler, "scheduler")):
        part.load_state_dict(state[name])


@torch.no_grad()
def recalibrate(model, loader):
    """Replace BatchNorm's running statistics by their mean over a pass: a few steps at momentum 0.01 leave them near 0 and 1."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    for images, _ in loader:
        model(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@torch.no_grad()
def evaluate(model, loader, metric):
    model.eval()
    batches = [(model(images), labels) for images, labels in loader]
    outputs, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return outputs, metric(outputs, labels)
