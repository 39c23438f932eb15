"""Loss, optimizer, schedule, an epoch of training, evaluation."""

import paddle
from paddle.nn import functional
from paddle.optimizer import SGD, Momentum
from paddle.optimizer.lr import StepDecay

from paralign import init

from .breaks import broken
from .metric import accuracy


def cross_entropy(outputs, labels):
    if broken("loss"):
        outputs = functional.softmax(outputs)
    return functional.cross_entropy(outputs, labels)


def build_scheduler(learning_rate=0.01):
    return StepDecay(learning_rate, step_size=2, gamma=0.1)


def build_optimizer(model, learning_rate=0.01):
    """Paddle's optimizers are given their schedule, where PyTorch's schedules are given their optimizer."""
    settings = {
        "learning_rate": learning_rate if broken("schedule") else build_scheduler(learning_rate),
        "parameters": model.parameters(),
        "weight_decay": None if broken("weight_decay") else 1e-4,
    }
    return SGD(**settings) if broken("momentum") else Momentum(momentum=0.9, **settings)


def scheduler_of(optimizer):
    if broken("schedule"):
        return build_scheduler()
    return optimizer._learning_rate  # noqa: SLF001 - Paddle has no public way to ask for it


def initialise(model):
    """Start as PyTorch's layers do."""
    init.default_like_torch(model)
    return model


def train_one_epoch(model, loader, optimizer, log, epoch):
    model.train()
    for _, (images, labels) in log.batches(loader, epoch):
        outputs = model(images)
        loss = cross_entropy(outputs, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        (acc,) = accuracy(outputs, labels, topk=(1,))
        log.step(samples=len(labels), acc=acc, lr=optimizer.get_lr(), loss=loss)


def save(stem, model, optimizer):
    """What a training needs to go on: ``stem.pdparams`` and ``stem.pdopt``, which has the schedule too."""
    paddle.save(model.state_dict(), f"{stem}.pdparams")
    paddle.save(optimizer.state_dict(), f"{stem}.pdopt")


def load(stem, model, optimizer):
    model.set_state_dict(paddle.load(f"{stem}.pdparams"))
    if not broken("resume"):
        optimizer.set_state_dict(paddle.load(f"{stem}.pdopt"))


@paddle.no_grad()
def evaluate(model, loader, metric):
    model.eval()
    batches = [(model(images), labels) for images, labels in loader]
    outputs, labels = (paddle.concat(list(parts)) for parts in zip(*batches, strict=True))
    return outputs, metric(outputs, labels)
