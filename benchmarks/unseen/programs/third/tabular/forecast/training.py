import numpy as np
import paddle

from .frame import PREPARED
from .registry import LOSSES
from .settings import SETTINGS

O = SETTINGS["optimizer"]


@LOSSES.add("pinball")
def pinball(guess, truth, levels):
    q = paddle.to_tensor(levels, dtype=guess.dtype)
    miss = truth.unsqueeze(1) - guess
    return (q * miss + (-miss).clip(min=0.0)).sum(axis=1).mean()


@LOSSES.add("smooth_pinball")
def smooth_pinball(guess, truth, levels, kappa=1.0):
    q = paddle.to_tensor(levels, dtype=guess.dtype)
    miss = truth.unsqueeze(1) - guess
    size = paddle.abs(miss)
    smooth = paddle.where(size <= kappa, miss * miss / (2 * kappa), size - kappa / 2)
    side = paddle.where(miss < 0, 1 - q, q)
    return (side * smooth).sum(axis=1).mean()


@LOSSES.add("poisson")
def poisson(guess, truth):
    return (paddle.exp(guess) - truth * guess).mean()


def task_losses(outputs, labels):
    for truth, task in zip(labels.unbind(axis=1), SETTINGS["tasks"]):
        extra = dict(task.get("options", {}))
        if "levels" in task:
            extra["levels"] = task["levels"]
        yield task["name"], LOSSES.make(task["loss"], outputs[task["name"]], truth, **extra)


def uncertainty_loss(outputs, labels):
    parts = dict(task_losses(outputs, labels))
    weights = paddle.to_tensor([t["weight"] for t in SETTINGS["tasks"]], dtype=outputs["log_var"].dtype)
    stacked = paddle.stack(list(parts.values()))
    s = outputs["log_var"]
    return {"loss": (weights * (stacked * paddle.exp(-s) + s / 2)).sum(), **parts}


def evaluate(outputs, labels):
    labels = labels.numpy().astype("float64")
    found = {}
    for y, task in zip(labels.T, SETTINGS["tasks"]):
        name = task["name"]
        p = outputs[name].numpy().astype("float64")
        if task["head"] == "levels":
            found[f"{name}_mae"] = np.mean(np.abs(y - p[:, 1])) * PREPARED.scale[name][1]
            found[f"{name}_inside"] = np.mean((y >= p.min(axis=1)) & (y <= p.max(axis=1)))
        else:
            term = np.zeros_like(y)
            some = y > 0
            term[some] = y[some] * (np.log(y[some]) - p[some])
            found[f"{name}_deviance"] = 2 * np.mean(term - y + np.exp(p))
    return found


class LAMB:
    def __init__(self, model, schedule, beta1=0.9, beta2=0.999):
        self._learning_rate = schedule
        self.named = [(n, p) for n, p in model.named_parameters() if not p.stop_gradient]
        self.beta1, self.beta2 = beta1, beta2
        self.moments = {}
        self.t = 0

    def get_lr(self):
        return self._learning_rate()

    def clear_grad(self):
        for _, p in self.named:
            p.clear_grad()

    @paddle.no_grad()
    def step(self):
        self.t += 1
        present = [(n, p, p.grad) for n, p in self.named if p.grad is not None]
        length = paddle.sqrt(paddle.add_n([paddle.square(g).sum() for _, _, g in present]))
        shrink = (O["clip"] / length).clip(max=1.0)
        for name, p, g in present:
            g = g * shrink
            m, v = self.moments.get(name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            m = m + (1 - self.beta1) * (g - m)
            v = v + (1 - self.beta2) * (g * g - v)
            self.moments[name] = (m, v)
            direction = (m / (1 - self.beta1 ** self.t)) / (paddle.sqrt(v / (1 - self.beta2 ** self.t)) + O["epsilon"])
            p.set_value(p - self.get_lr() * self.layerwise(p, direction))

    @staticmethod
    def layerwise(p, direction):
        if p.ndim < 2:
            return direction
        direction = direction + O["weight_decay"] * p
        ratio = float(paddle.linalg.norm(p)) / max(float(paddle.linalg.norm(direction)), 1e-30)
        return direction * min(ratio, O["trust"])
