"""Optimizer, schedule and one step of training."""
import math

import paddle
from paddle.optimizer.lr import LRScheduler


class CosineRestartDecay(LRScheduler):
    """SGDR; after each restart the peak is `shrink` times the last one."""

    def __init__(self, learning_rate, first_cycle, growth, floor, shrink, last_epoch=-1, verbose=False):
        self.first_cycle = first_cycle
        self.growth = growth
        self.floor = floor
        self.shrink = shrink
        super().__init__(learning_rate, last_epoch, verbose)

    def cycle(self, step):
        """Start, length and number of the cycle that `step` falls into."""
        start, length, number = 0, self.first_cycle, 0
        while start + length <= step:
            start, length, number = start + length, length * self.growth, number + 1
        return start, length, number

    def get_lr(self):
        start, length, number = self.cycle(self.last_epoch)
        cosine = math.cos(math.pi * (self.last_epoch - start) / length)
        peak = self.shrink**number
        return self.base_lr * (self.floor + 0.5 * (peak - self.floor) * (1.0 + cosine))


def wants_decay(name, parameter):
    return parameter.ndim >= 2 and not name.startswith("embedding")


def make_optimizer(model, optim, schedule):
    decayed = {p.name for n, p in model.named_parameters() if wants_decay(n, p)}
    rate = CosineRestartDecay(optim.learning_rate, schedule.first_cycle, schedule.growth, schedule.floor, schedule.shrink)
    return paddle.optimizer.AdamW(
        learning_rate=rate,
        parameters=model.parameters(),
        beta1=optim.beta1,
        beta2=optim.beta2,
        epsilon=optim.epsilon,
        weight_decay=optim.weight_decay,
        apply_decay_param_fun=lambda name: name in decayed,
    )


def clip_gradients(parameters, limit):
    """As torch.nn.utils.clip_grad_norm_: scales in place, returns the norm before."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    total = paddle.sqrt(sum(paddle.sum(paddle.square(g)) for g in gradients))
    scale = paddle.clip(limit / (total + 1e-6), max=1.0)
    with paddle.no_grad():
        for gradient in gradients:
            gradient.set_value(gradient * scale)
    return total


def step(model, optimizer, batch, criterion, clip_norm):
    features = {key: batch[key] for key in ("tokens", "word_lengths", "sentence_lengths")}
    terms = criterion(model(**features), batch["labels"])
    terms["loss"].backward()
    norm = clip_gradients(model.parameters(), clip_norm)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": terms["loss"].detach(), "focal": terms["focal"].detach(), "norm": norm}
