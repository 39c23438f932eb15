import paddle

from settings import make, plugin


@plugin("lamb")
class LayerwiseAdam:
    def __init__(self, params, lr, beta1, beta2, eps, decay):
        self.params, self.lr, self.b1, self.b2, self.eps, self.decay = params, lr, beta1, beta2, eps, decay
        self.first = [paddle.zeros_like(p) for p in params]
        self.second = [paddle.zeros_like(p) for p in params]
        self.t = 0

    def apply(self, grads):
        self.t += 1
        for i, (p, g) in enumerate(zip(self.params, grads)):
            self.first[i] = self.b1 * self.first[i] + (1.0 - self.b1) * g
            self.second[i] = self.b2 * self.second[i] + (1.0 - self.b2) * g * g
            m = self.first[i] / (1.0 - self.b1 ** self.t)
            v = self.second[i] / (1.0 - self.b2 ** self.t)
            move, trust = m / (paddle.sqrt(v) + self.eps), 1.0
            if p.ndim >= 2:
                move = move + self.decay * p
                size, length = min(float(p.norm()), 10.0), float(move.norm())
                trust = size / length if size > 0 and length > 0 else 1.0
            p.set_value(p - self.lr * trust * move)


@plugin("rms_momentum")
class RootMeanSquare:
    def __init__(self, params, lr, rho, eps, momentum, decay):
        self.params, self.lr, self.rho, self.eps, self.momentum, self.decay = params, lr, rho, eps, momentum, decay
        self.power = [paddle.zeros_like(p) for p in params]
        self.speed = [paddle.zeros_like(p) for p in params]

    def apply(self, grads):
        for i, (p, g) in enumerate(zip(self.params, grads)):
            g = g + self.decay * p
            self.power[i] = self.rho * self.power[i] + (1.0 - self.rho) * g.square()
            self.speed[i] = self.momentum * self.speed[i] + g / (self.power[i].sqrt() + self.eps)
            p.set_value(p - self.lr * self.speed[i])


class JointUpdate:
    """gradients pile up over `accumulate` micro-batches; then one clip over everything and two rules"""

    def __init__(self, model, options):
        inner = model.encoder.parameters()
        names = {p.name for p in inner}
        outer = [p for p in model.parameters() if p.name not in names]
        self.rules = [make(options["encoder_optimizer"], inner), make(options["head_optimizer"], outer)]
        self.start = [rule.lr for rule in self.rules]
        self.max_norm = options["training"]["max_norm"]
        self.accumulate = options["training"]["accumulate"]
        self.seen = 0

    def lrs(self):
        return [rule.lr for rule in self.rules]

    @paddle.no_grad()
    def step(self):
        self.seen += 1
        if self.seen % self.accumulate != 0:
            return
        groups = [[paddle.zeros_like(p) if p.grad is None else p.grad / self.accumulate for p in rule.params] for rule in self.rules]
        norm = float(sum(g.square().sum() for grads in groups for g in grads)) ** 0.5
        shrink = min(1.0, self.max_norm / norm) if norm > 0 else 1.0
        for rule, grads in zip(self.rules, groups):
            rule.apply([g * shrink for g in grads])

    def clear_grad(self):
        if self.seen % self.accumulate == 0:
            for rule in self.rules:
                for p in rule.params:
                    p.clear_gradient(set_to_zero=False)


class PolynomialPlan:
    def __init__(self, joint, warmup, updates, power, floor):
        self.joint, self.warmup, self.updates, self.power, self.floor = joint, warmup, updates, power, floor
        self.micro = -1
        self.step()

    def factor(self, update):
        if update < self.warmup:
            return (update + 1.0) / self.warmup
        left = 1.0 - min(1.0, (update - self.warmup) / (self.updates - self.warmup))
        return max(self.floor, left ** self.power)

    def step(self):
        self.micro += 1
        value = self.factor(self.micro // self.joint.accumulate)
        for rule, start in zip(self.joint.rules, self.joint.start):
            rule.lr = start * value
