"""Loss, optimizer, schedule, the training loop and its end."""

import torch
from torch import nn

from .metric import errors


def mean_squared_error(outputs, labels):
    return nn.functional.mse_loss(outputs, labels)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def build_scheduler(optimizer):
    """The rate is halved after each epoch."""
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)


class EarlyStopping:
    """Tells after how many epochs in a row without a better loss the training ends."""

    def __init__(self, patience=3):
        self.patience = patience
        self.best = float("inf")
        self.worse = 0

    def better(self, value):
        self.worse = 0 if value < self.best else self.worse + 1
        self.best = min(value, self.best)
        return self.worse == 0

    @property
    def over(self):
        return self.worse >= self.patience


@torch.no_grad()
def evaluate(model, loader):
    """Both errors over a whole split, in eval mode."""
    model.eval()
    outputs, labels = [], []
    for *inputs, target in loader:
        outputs.append(model(*inputs))
        labels.append(target)
    return {name: float(value) for name, value in errors(torch.cat(outputs), torch.cat(labels)).items()}


def fit(model, optimizer, loaders, log, epochs, keep=lambda _: None):
    """Train until ``epochs`` or until validation gets no better; ``keep(model)`` is called after each epoch that was the best."""
    scheduler = build_scheduler(optimizer)
    stopping = EarlyStopping()
    for epoch in range(epochs):
        model.train()
        for _, (*inputs, target) in log.batches(loaders["train"], epoch):
            loss = mean_squared_error(model(*inputs), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.step(samples=len(target), loss=loss, lr=scheduler.get_last_lr()[0])
        scheduler.step()
        found = evaluate(model, loaders["val"])
        log.evaluation(epoch, **found)
        if stopping.better(found["mse"]):
            keep(model)
        if stopping.over:
            break
