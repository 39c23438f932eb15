"""Adagrad with a forgetting accumulator (Paddle's own has neither that nor a decaying rate)."""
import paddle
from paddle.optimizer.lr import LambdaDecay


class LeakyAdagrad:
    def __init__(self, schedule, groups, lr_decay=2e-3, keep=0.98, start=1e-3, eps=1e-4):
        self._learning_rate = schedule
        self.groups, self.lr_decay, self.keep, self.eps = groups, lr_decay, keep, eps
        self.t = 0
        self.squares = [[paddle.full_like(p, start) for p in g["params"]] for g in groups]

    def get_lr(self):
        return self._learning_rate()

    def clear_grad(self):
        for group in self.groups:
            for p in group["params"]:
                p.clear_gradient()

    @paddle.no_grad()
    def step(self):
        for group, squares in zip(self.groups, self.squares):
            lr = self.get_lr() * group.get("scale", 1.0) / (1 + self.t * self.lr_decay)
            shrink = 1 - lr * group.get("decay", 0.0)
            for p, total in zip(group["params"], squares):
                if p.grad is None:
                    continue
                total.set_value(total * self.keep + p.grad * p.grad)
                p.set_value(p * shrink - lr * p.grad / (total.sqrt() + self.eps))
        self.t += 1


def factor(k):
    warm = (k + 1) / 5 if k < 5 else 1.0
    return warm * (1.0 if k < 40 else 0.5 if k < 60 else 0.25)


def assemble(net, lr=0.05):
    special = {id(net.ent), id(net.rot)}
    return LeakyAdagrad(LambdaDecay(lr, factor), [
        {"params": [net.ent], "decay": 0.02},
        {"params": [net.rot], "scale": 0.2},
        {"params": [p for p in net.parameters() if id(p) not in special]}])
