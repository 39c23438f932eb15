"""Loss, optimizer, schedule, and the short training that gives the example its weights."""

import torch
from torch import nn


def build_optimizer(model, lr=0.01):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)


def build_scheduler(optimizer, step_size=2):
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=step_size, gamma=0.1)


def train(model, loader, optimizer, scheduler, epochs):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(epochs):
        losses = []
        for images, labels in loader:
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")
        scheduler.step()


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
