import math

import paddle
from paddle.optimizer.lr import LRScheduler

from . import CFG
from .criteria import one_step
from .operator import Fourier
from .pde_data import SCALING


class Restarts(LRScheduler):
    """Ramp, then cosines of period, period * stretch, ... with falling peaks."""

    def __init__(self, rate, ramp, period, stretch, shrink, floor):
        self.ramp, self.period, self.stretch, self.shrink, self.floor = ramp, period, stretch, shrink, floor
        super().__init__(learning_rate=rate)

    def get_lr(self):
        if self.last_epoch < self.ramp:
            return self.base_lr * (self.last_epoch + 1) / (self.ramp + 1)
        since, period, top = self.last_epoch - self.ramp, self.period, self.base_lr
        while since >= period:
            since, period, top = since - period, period * self.stretch, top * self.shrink
        return self.floor + 0.5 * (top - self.floor) * (1 + math.cos(math.pi * since / period))


def adam(net):
    a = CFG["adam"]
    fourier = [layer.weight for layer in net.sublayers() if isinstance(layer, Fourier)]
    names = {p.name for p in fourier}
    rest = [p for p in net.parameters() if p.name not in names]
    return paddle.optimizer.Adam(
        learning_rate=Restarts(a["rate"], **CFG["restarts"]),
        beta1=a["beta1"],
        beta2=a["beta2"],
        epsilon=a["epsilon"],
        parameters=[
            {"params": rest, "weight_decay": a["l2"]},
            {"params": fourier, "learning_rate": a["fourier_rate"], "weight_decay": 0.0},
        ],
        grad_clip=paddle.nn.ClipGradByValue(a["clip"]),
    )


def update(net, optimizer, u, nu, labels):
    out = net(u, nu)
    near = one_step(out, labels["next"])
    again = SCALING.pack(SCALING.unpack(out.detach()))
    far = one_step(net(again, nu), labels["second"])
    total = near + CFG["loss"]["pushforward"] * far
    total.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(near), "unrolled": float(far)}


def march(net, u, nu, steps):
    """Network steps one after the other from a field u of physical values."""
    states = []
    for _ in range(steps):
        u = SCALING.unpack(net(SCALING.pack(u), nu))
        states.append(u)
    return paddle.concat(states, axis=0)
