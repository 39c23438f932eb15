"""Descent with Nesterov's momentum and its cyclic rate."""
import math

import paddle


class Nesterov(paddle.optimizer.Optimizer):
    """Each parameter has a rate factor and a decay of its own: ``rules(name) -> (factor, decay)``."""

    def __init__(self, named, rate, momentum, rules):
        self.named = [(n, p) for n, p in named if not p.stop_gradient]
        super().__init__(learning_rate=rate, parameters=[p for _, p in self.named])
        self.momentum = momentum
        self.rules = {n: rules(n, p) for n, p in self.named}
        self.speed = {}

    @paddle.no_grad()
    def step(self):
        rate = self.get_lr()
        for name, p in self.named:
            if p.grad is None:
                continue
            factor, decay = self.rules[name]
            g = p.grad + decay * p if decay else p.grad.clone()
            old = self.speed.get(name)
            speed = g if old is None else self.momentum * old + g
            self.speed[name] = speed
            p.set_value(p - rate * factor * (g + self.momentum * speed))

    def state_dict(self):
        state = {n + "_speed": v for n, v in self.speed.items()}
        state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state):
        self.speed = {n: paddle.assign(state[n + "_speed"]) for n, _ in self.named if n + "_speed" in state}
        if "LR_Scheduler" in state:
            self._learning_rate.set_state_dict(state["LR_Scheduler"])


def restarts(first, factor):
    """Half cosines, each ``factor`` times as long as the one before."""
    def share(step):
        length, at = first, step
        while at >= length:
            at -= length
            length *= factor
        return 0.5 * (1 + math.cos(math.pi * at / length))
    return share
