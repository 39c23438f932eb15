import paddle
from paddle.optimizer import Optimizer


class FactorOptimizer(Optimizer):
    """Adafactor without relative rates of its own; `decayed` says by name which weights decay."""

    def __init__(self, learning_rate, parameters, decayed, weight_decay=0.05, clip=1.0, power=0.8):
        super().__init__(learning_rate=learning_rate, parameters=list(parameters))
        self.decayed, self.rate_of_decay, self.clip, self.power = set(decayed), weight_decay, clip, power
        self.moments, self.t = {}, 0

    def _track(self, name, value, beta):
        old = self.moments.get(name)
        new = value * (1 - beta) if old is None else old * beta + value * (1 - beta)
        self.moments[name] = new
        return new

    @paddle.no_grad()
    def step(self):
        self.t += 1
        beta, lr = 1.0 - self.t ** -self.power, self.get_lr()
        for p in self._parameter_list:
            if p.stop_gradient or p.grad is None:
                continue
            g = p.grad
            square = paddle.square(g) + 1e-30
            if p.ndim < 2:
                second = self._track(p.name, square, beta)
            else:
                row = self._track(p.name + ".row", square.mean(axis=-1, keepdim=True), beta)
                col = self._track(p.name + ".col", square.mean(axis=-2, keepdim=True), beta)
                second = row * col / row.mean(axis=-2, keepdim=True)
            update = g / paddle.sqrt(second)
            update = update / paddle.clip(self.rms(update) / self.clip, min=1.0)
            size = paddle.clip(self.rms(p), min=1e-3)
            shrink = 1 - lr * self.rate_of_decay if p.name in self.decayed else 1.0
            p.set_value(p * shrink - lr * size * update)

    @staticmethod
    def rms(x):
        return paddle.sqrt(paddle.mean(paddle.square(x)))

    def state_dict(self):
        return {**super().state_dict(), "moments": dict(self.moments), "updates": self.t}

    def set_state_dict(self, state):
        state = dict(state)
        self.moments, self.t = dict(state.pop("moments")), state.pop("updates")
        super().set_state_dict(state)
