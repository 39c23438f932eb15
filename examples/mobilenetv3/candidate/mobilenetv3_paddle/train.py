"""Loss, optimizer and schedule."""

from paddle.nn import functional
from paddle.optimizer import SGD, Momentum
from paddle.optimizer.lr import StepDecay

from .breaks import broken


def cross_entropy(outputs, labels):
    if broken("loss"):
        outputs = functional.softmax(outputs)
    return functional.cross_entropy(outputs, labels)


def build_scheduler(learning_rate=0.01):
    return StepDecay(learning_rate, step_size=2, gamma=0.1)


def build_optimizer(model):
    """Paddle's optimizers are given their schedule, where PyTorch's schedules are given their optimizer."""
    settings = {
        "learning_rate": 0.01 if broken("schedule") else build_scheduler(),
        "parameters": model.parameters(),
        "weight_decay": None if broken("weight_decay") else 1e-4,
    }
    return SGD(**settings) if broken("momentum") else Momentum(momentum=0.9, **settings)
