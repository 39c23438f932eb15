"""RMSProp as PyTorch has it (centred, with momentum; epsilon outside the root), and its schedule."""
import math

import paddle

from wear_config import cfg


class CentredRMS(paddle.optimizer.Optimizer):
    SLOTS = ("square", "mean", "velocity")

    def __init__(self, learning_rate, parameters, memory, tiny, momentum, decay):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.params = list(parameters)
        self.memory, self.tiny, self.momentum, self.decay = memory, tiny, momentum, decay
        self.slots = {s: [paddle.zeros_like(p) for p in self.params] for s in self.SLOTS}

    @paddle.no_grad()
    def step(self):
        lr = self.get_lr()
        a = self.memory
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            g = p.grad + self.decay * p
            square = a * self.slots["square"][i] + (1 - a) * g * g
            mean = a * self.slots["mean"][i] + (1 - a) * g
            root = paddle.sqrt(square - mean * mean) + self.tiny
            velocity = self.momentum * self.slots["velocity"][i] + g / root
            for s, v in zip(self.SLOTS, (square, mean, velocity)):
                self.slots[s][i] = v.detach()
            p.set_value(p - lr * velocity)

    def state_dict(self):
        state = {f"{s}.{i}": v for s, vs in self.slots.items() for i, v in enumerate(vs)}
        if isinstance(self._learning_rate, paddle.optimizer.lr.LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state):
        for s in self.SLOTS:
            self.slots[s] = [paddle.to_tensor(state[f"{s}.{i}"]).clone() for i in range(len(self.params))]
        if "LR_Scheduler" in state:
            self._learning_rate.set_state_dict(state["LR_Scheduler"])


def cycle(rate):
    """Cosine cycles, each longer than the one before."""
    length, growth, low = cfg.cycle.length, cfg.cycle.growth, cfg.cycle.floor / rate

    def factor(t):
        span = length
        while t >= span:
            t -= span
            span *= growth
        return low + (1 - low) * (1 + math.cos(math.pi * t / span)) / 2

    return paddle.optimizer.lr.LambdaDecay(rate, factor)
