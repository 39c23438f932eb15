import paddle


class Belief:
    """AdaBelief: the second moment of what the first one did not foresee."""

    def __init__(self, schedule, parameters, beta1=0.9, beta2=0.98, epsilon=1e-6, decay=0.0, decayed=lambda p: True):
        self.schedule = schedule
        self.parameters = [p for p in parameters if not p.stop_gradient]
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.coefficient = [decay if decayed(p) else 0.0 for p in self.parameters]
        self.clear_state()

    def clear_state(self):
        self.steps = 0
        self.mean = [paddle.zeros_like(p) for p in self.parameters]
        self.surprise = [paddle.zeros_like(p) for p in self.parameters]

    def get_lr(self):
        return self.schedule()

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient(False)

    @paddle.no_grad()
    def step(self):
        self.steps += 1
        lr = self.get_lr()
        fix1 = 1 - self.beta1**self.steps
        fix2 = 1 - self.beta2**self.steps
        for k, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self.mean[k] = self.beta1 * self.mean[k] + (1 - self.beta1) * p.grad
            off = p.grad - self.mean[k]
            self.surprise[k] = self.beta2 * self.surprise[k] + (1 - self.beta2) * off * off + self.epsilon
            scale = paddle.sqrt(self.surprise[k] / fix2) + self.epsilon
            p.set_value(p * (1 - lr * self.coefficient[k]) - lr * (self.mean[k] / fix1) / scale)
