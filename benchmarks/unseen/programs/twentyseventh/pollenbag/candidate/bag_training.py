"""Paddle's RMSProp puts epsilon under the root; here is the one that adds it outside, and its rate."""
import math

import paddle
from paddle.optimizer import Optimizer
from paddle.optimizer.lr import LambdaDecay


class CentredRMS(Optimizer):
    SQUARE, MEAN, SPEED = "square", "mean", "speed"

    def __init__(self, learning_rate, parameters, alpha, eps, momentum, decay):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.alpha, self.eps, self.momentum, self.decay = alpha, eps, momentum, decay

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            if p.name in self._already_create_accumulator:
                continue
            for slot in (self.SQUARE, self.MEAN, self.SPEED):
                self._add_accumulator(slot, p)
            self._already_create_accumulator.add(p.name)

    @paddle.no_grad()
    def _append_optimize_op(self, block, param_and_grad):
        p, g = param_and_grad
        square, mean, speed = (self._get_accumulator(s, p) for s in (self.SQUARE, self.MEAN, self.SPEED))
        g = g + self.decay * p
        square.set_value(self.alpha * square + (1 - self.alpha) * g * g)
        mean.set_value(self.alpha * mean + (1 - self.alpha) * g)
        spread = paddle.sqrt(square - mean * mean) + self.eps
        speed.set_value(self.momentum * speed + g / spread)
        p.set_value(p - self.get_lr() * speed)


def restarts(base, floor, period, growth):
    """Cosine from base to floor * base, started anew after period, period * growth, ... steps."""

    def factor(step):
        length = period
        while step >= length:
            step -= length
            length *= growth
        return floor + (1 - floor) * (1 + math.cos(math.pi * step / length)) / 2

    return LambdaDecay(base, factor)
