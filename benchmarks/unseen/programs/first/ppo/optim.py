import paddle


class RMSProp:
    """As in PyTorch: epsilon is added to the root"""

    def __init__(self, parameters, lr, rho, epsilon, max_norm):
        self.parameters = list(parameters)
        self.lr, self.rho, self.epsilon, self.max_norm = lr, rho, epsilon, max_norm
        self.square = [paddle.zeros_like(p) for p in self.parameters]

    def get_lr(self):
        return self.lr

    def clip(self):
        norm = paddle.stack([p.grad.square().sum() for p in self.parameters]).sum().sqrt()
        return paddle.clip(self.max_norm / (norm + 1e-6), max=1.0)

    @paddle.no_grad()
    def step(self):
        factor = self.clip()
        for p, s in zip(self.parameters, self.square):
            g = p.grad * factor
            s.set_value(self.rho * s + (1 - self.rho) * g * g)
            p.set_value(p - self.lr * g / (s.sqrt() + self.epsilon))

    def clear_grad(self, set_to_zero=False):
        for p in self.parameters:
            p.clear_gradient(set_to_zero)
