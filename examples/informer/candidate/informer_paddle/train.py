"""Loss, optimizer, schedule, the training loop and its end."""

import paddle
from paddle.nn import functional
from paddle.optimizer import Adam, AdamW
from paddle.optimizer.lr import StepDecay

from .breaks import broken
from .metric import errors


def mean_squared_error(outputs, labels):
    return functional.smooth_l1_loss(outputs, labels) if broken("loss") else functional.mse_loss(outputs, labels)


def build_optimizer(model):
    schedule = StepDecay(1e-3, step_size=1, gamma=0.1 if broken("gamma") else 0.5)
    return (AdamW if broken("adamw") else Adam)(learning_rate=schedule, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate  # noqa: SLF001 - Paddle has no public way to ask for it


class EarlyStopping:
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


@paddle.no_grad()
def evaluate(model, loader):
    model.eval()
    outputs, labels = [], []
    for *inputs, target in loader:
        outputs.append(model(*inputs))
        labels.append(target)
    return {name: float(value) for name, value in errors(paddle.concat(outputs), paddle.concat(labels)).items()}


def fit(model, optimizer, loaders, log, epochs, keep=lambda _: None):
    """Train until ``epochs`` or until validation gets no better; ``keep(model)`` is called after each epoch that was the best."""
    scheduler = build_scheduler(optimizer)
    stopping = EarlyStopping()
    model.train()
    for epoch in range(epochs):
        if not broken("eval_left"):
            model.train()
        for _, (*inputs, target) in log.batches(loaders["train"], epoch):
            loss = mean_squared_error(model(*inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            log.step(samples=len(target), loss=loss, lr=optimizer.get_lr())
            if broken("per_iteration"):
                scheduler.step()
        if not broken("per_iteration"):
            scheduler.step()
        found = evaluate(model, loaders["val"])
        log.evaluation(epoch, **found)
        if stopping.better(found["mse"]):
            keep(model)
        if stopping.over:
            break
