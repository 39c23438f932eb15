import paddle
from paddle.optimizer import lr

from .opts import opts


def rates():
    ramp = opts.lr / opts.warmup
    decay = lr.PolynomialDecay(opts.lr, decay_steps=opts.steps - opts.warmup, end_lr=opts.lr * opts.floor, power=opts.power)
    return lr.LinearWarmup(decay, warmup_steps=opts.warmup, start_lr=ramp, end_lr=opts.lr + ramp)


def grouped(net):
    """(factor of the rate, decay, parameters) for each depth, with and without decay."""
    top = opts.n_layer + 1
    parts = [(0, [net.time, net.tok_r, net.tok_s, net.tok_a, net.ln_in])]
    parts += [(i, [layer]) for i, layer in enumerate(net.layers, start=1)]
    parts += [(top, [net.ln_out, net.to_action, net.to_return])]
    exempt = {net.time.weight.name}
    result = []
    for depth, modules in parts:
        params = [p for module in modules for p in module.parameters()]
        matrices = [p for p in params if len(p.shape) == 2 and p.name not in exempt]
        plain = [p for p in params if len(p.shape) < 2 or p.name in exempt]
        factor = opts.lr_decay ** (top - depth)
        result += [(factor, opts.wd, matrices), (factor, 0.0, plain)]
    return result


class Lamb:
    """The LAMB of the reference; Paddle's own has no clipping and does not bound the norm of the weights."""

    def __init__(self, net, schedule):
        self._learning_rate = schedule
        self.groups = grouped(net)
        self.moments = {}
        self.t = 0

    def get_lr(self):
        return self._learning_rate()

    def parameters(self):
        return [p for _, _, params in self.groups for p in params if p.grad is not None]

    def clear_grad(self):
        for _, _, params in self.groups:
            for p in params:
                p.clear_grad()

    def _shrink(self):
        total = paddle.add_n([p.grad.square().sum() for p in self.parameters()])
        return paddle.clip(opts.grad_norm / (total.sqrt() + 1e-6), max=1.0)

    def _direction(self, p, grad):
        m, v = self.moments.get(p.name) or (paddle.zeros_like(p), paddle.zeros_like(p))
        m = opts.b1 * m + (1 - opts.b1) * grad
        v = opts.b2 * v + (1 - opts.b2) * grad * grad
        self.moments[p.name] = m, v
        m_hat, v_hat = m / (1 - opts.b1**self.t), v / (1 - opts.b2**self.t)
        return m_hat / (v_hat.sqrt() + opts.eps)

    @staticmethod
    def _trust(p, r):
        a, b = float(paddle.linalg.norm(p)), float(paddle.linalg.norm(r))
        return min(a, opts.phi_max) / b if a > 0 and b > 0 else 1.0

    @paddle.no_grad()
    def step(self):
        if not self.parameters():
            return
        self.t += 1
        shrink, rate = self._shrink(), self.get_lr()
        for factor, wd, params in self.groups:
            for p in params:
                if p.grad is None:
                    continue
                r = self._direction(p, p.grad * shrink)
                size = rate * factor
                if wd > 0:
                    r = r + wd * p
                    size *= self._trust(p, r)
                p.set_value(p - size * r)
