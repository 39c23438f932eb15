"""AdaBelief as a plain class: Paddle's Optimizer wants kernels, these are a few lines."""
import paddle


def center_columns(gradient):
    """Takes the mean over the inputs (rows of Paddle's weights) from a matrix's gradient."""
    return gradient - gradient.mean(axis=0, keepdim=True) if gradient.ndim == 2 else gradient


class Belief:
    def __init__(self, parameters, rate, decay, beta1=0.9, beta2=0.98, epsilon=1e-10, most=0.5, warmup=4):
        self.parameters = [p for p in parameters if not p.stop_gradient]
        self.rate, self.decay, self.epsilon = rate, decay, epsilon
        self.beta1, self.beta2 = beta1, beta2
        self.most, self.warmup = most, warmup
        self.count = 0
        self.average = [paddle.zeros_like(p) for p in self.parameters]
        self.surprise = [paddle.zeros_like(p) for p in self.parameters]

    def get_lr(self):
        return self.rate

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient()

    def shrink(self):
        """Factor that brings all gradients together to the length `most`."""
        squares = [paddle.sum(p.grad * p.grad) for p in self.parameters if p.grad is not None]
        length = paddle.sqrt(paddle.add_n(squares))
        return self.most / paddle.maximum(length, paddle.full_like(length, self.most))

    @paddle.no_grad()
    def step(self):
        factor = self.shrink()
        self.count += 1
        rate = self.rate * min(self.count / self.warmup, 1.0)
        for p, m, s in zip(self.parameters, self.average, self.surprise):
            if p.grad is None:
                continue
            g = center_columns(p.grad * factor)
            paddle.assign(self.beta1 * m + (1 - self.beta1) * g, m)
            paddle.assign(self.beta2 * s + (1 - self.beta2) * (g - m) ** 2 + self.epsilon, s)
            denominator = paddle.sqrt(s / (1 - self.beta2**self.count)) + self.epsilon
            kept = 1.0 - rate * self.decay if p.ndim > 1 else 1.0
            p.set_value(kept * p - rate * m / (1 - self.beta1**self.count) / denominator)


def optimizer_of(net):
    return Belief(net.parameters(), rate=4e-3, decay=0.05)
