import paddle
from paddle.optimizer.lr import LinearWarmup, StepDecay


def warm_then_steps(peak, warm, first, every, drop_to):
    decay = StepDecay(peak, step_size=every, gamma=drop_to)
    return LinearWarmup(decay, warmup_steps=warm, start_lr=first * peak, end_lr=peak)


class Yogi:
    """A hand-made optimizer in the manner of paddle.optimizer: the schedule is inside, parameters are updated in place."""

    def __init__(self, learning_rate, parameters, no_decay, beta1, beta2, epsilon, decay, clip):
        self._learning_rate = learning_rate
        self._parameters = [p for p in parameters if not p.stop_gradient]
        self._no_decay = set(no_decay)
        self.beta1, self.beta2, self.epsilon, self.decay, self.clip = beta1, beta2, epsilon, decay, clip
        self._count = 0
        self._first = {p.name: paddle.zeros_like(p) for p in self._parameters}
        self._second = {p.name: paddle.full_like(p, 1e-6) for p in self._parameters}

    def get_lr(self):
        return self._learning_rate() if callable(self._learning_rate) else self._learning_rate

    def clear_grad(self, set_to_zero=True):
        for p in self._parameters:
            p.clear_gradient(set_to_zero)

    def _clip_factor(self, grads):
        norm = paddle.sqrt(paddle.add_n([paddle.sum(paddle.square(g)) for g in grads]))
        return self.clip / paddle.clip(norm, min=self.clip)

    @paddle.no_grad()
    def step(self):
        live = [p for p in self._parameters if p.grad is not None]
        if not live:
            return
        factor = self._clip_factor([p.grad for p in live])
        self._count += 1
        rate = self.get_lr()
        debias1 = 1.0 - self.beta1**self._count
        debias2 = 1.0 - self.beta2**self._count
        for p in live:
            g = p.grad * factor
            g2 = paddle.square(g)
            m = self.beta1 * self._first[p.name] + (1.0 - self.beta1) * g
            v = self._second[p.name]
            v = v - (1.0 - self.beta2) * paddle.sign(v - g2) * g2
            self._first[p.name], self._second[p.name] = m, v
            shrink = 1.0 if p.name in self._no_decay else 1.0 - rate * self.decay
            p.set_value(p * shrink - rate * (m / debias1) / (paddle.sqrt(v / debias2) + self.epsilon))

    def state_dict(self):
        state = {"count": self._count}
        for i, p in enumerate(self._parameters):
            state["m_%d" % i], state["v_%d" % i] = self._first[p.name], self._second[p.name]
        if hasattr(self._learning_rate, "state_dict"):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state):
        self._count = int(state["count"])
        for i, p in enumerate(self._parameters):
            self._first[p.name] = paddle.to_tensor(state["m_%d" % i])
            self._second[p.name] = paddle.to_tensor(state["v_%d" % i])
        if "LR_Scheduler" in state:
            self._learning_rate.set_state_dict(state["LR_Scheduler"])
