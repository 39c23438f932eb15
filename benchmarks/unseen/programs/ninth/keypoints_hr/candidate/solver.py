"""Momentum with lookahead, its schedule, and the training step."""
import paddle
from paddle.optimizer.lr import LinearWarmup, MultiStepDecay

from . import config


class LookaheadOptimizer:
    def __init__(self, inner, parameters, k, alpha):
        self.inner = inner
        self.parameters = list(parameters)
        self.k = k
        self.alpha = alpha
        self.steps = 0
        self.anchors = None

    def get_lr(self):
        return self.inner.get_lr()

    def clear_grad(self):
        self.inner.clear_grad()

    @paddle.no_grad()
    def step(self):
        if self.anchors is None:
            self.anchors = [p.detach().clone() for p in self.parameters]
        self.inner.step()
        self.steps += 1
        if self.steps % self.k == 0:
            self.synchronise()

    def synchronise(self):
        for i, parameter in enumerate(self.parameters):
            anchor = self.anchors[i]
            anchor = anchor + self.alpha * (parameter - anchor)
            self.anchors[i] = anchor.detach()
            parameter.set_value(anchor)

    def state_dict(self):
        return {"inner": self.inner.state_dict(), "steps": self.steps, "anchors": self.anchors}

    def set_state_dict(self, state):
        self.inner.set_state_dict(state["inner"])
        self.steps, self.anchors = state["steps"], state["anchors"]


def make_schedule(base):
    s = config.schedule
    after = MultiStepDecay(base, milestones=[m - s["warmup"] for m in s["milestones"]], gamma=s["gamma"])
    return LinearWarmup(after, warmup_steps=s["warmup"], start_lr=s["start"] * base, end_lr=base)


def make_optimizer(model):
    options = dict(config.optimizer)
    rate, decay = options.pop("learning_rate"), options.pop("weight_decay")
    kernels, others = [], []
    for parameter in model.parameters():
        (kernels if parameter.ndim == 4 else others).append(parameter)
    inner = paddle.optimizer.Momentum(
        learning_rate=make_schedule(rate),
        parameters=[{"params": kernels, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}],
        **options,
    )
    return LookaheadOptimizer(inner, kernels + others, **config.lookahead)


def train_step(model, optimizer, batch, criterion):
    images, labels = batch
    terms = criterion(model(images), labels)
    terms["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    return {name: term.detach() for name, term in terms.items()}
