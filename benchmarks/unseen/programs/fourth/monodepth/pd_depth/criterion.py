"""Loss and evaluation."""
import numpy as np
import paddle

from .settings import LossConfig


class DepthCriterion:
    def __init__(self, far, cfg=None):
        self.far = far
        self.cfg = cfg or LossConfig()

    def usable(self, target):
        return paddle.logical_and(target > 1e-3, target < self.far)

    def scale_invariant(self, pred, target, mask):
        err = paddle.masked_select(paddle.log(pred), mask) - paddle.masked_select(target, mask).log()
        second = err.square().mean()
        first = err.mean()
        return self.cfg.gain * paddle.sqrt(second - self.cfg.variance_focus * first.square())

    def edges(self, pred, target, mask):
        diff = pred.log() - target.clip(min=1e-3).log()
        diff = paddle.where(mask, diff, paddle.zeros_like(diff))
        m = mask.astype(diff.dtype)
        total = 0.0
        for axis in (-1, -2):
            n = diff.shape[axis]
            first = lambda t: t.slice([t.ndim + axis], [0], [n - 1])
            second = lambda t: t.slice([t.ndim + axis], [1], [n])
            both = first(m) * second(m)
            step = (second(diff) - first(diff)).abs()
            total = total + (step * both).sum() / both.sum()
        return total

    def __call__(self, outputs, target):
        full, aux = outputs
        mask = self.usable(target)
        value = self.scale_invariant(full, target, mask)
        value = value + self.cfg.aux * self.scale_invariant(aux, target, mask)
        return value + self.cfg.edges * self.edges(full, target, mask)


class Evaluator:
    names = ("a1", "a2", "a3", "abs_rel", "rmse", "log10")

    def __init__(self, far, thresholds=(1.25, 1.25 ** 2, 1.25 ** 3)):
        self.far = far
        self.thresholds = thresholds
        self.reset()

    def reset(self):
        self.sum = np.zeros(len(self.names))
        self.count = 0

    def window(self, h, w):
        keep = np.zeros((h, w), bool)
        keep[int(0.1 * h):int(0.95 * h), int(0.05 * w):int(0.95 * w)] = True
        return keep

    def update(self, pred, target):
        keep = self.window(*target.shape[-2:])
        for p, t in zip(pred.squeeze(1), target.squeeze(1)):
            ok = keep & (t > 1e-3) & (t < self.far)
            p, t = p[ok].clip(1e-3, self.far), t[ok]
            worse = np.exp(np.abs(np.log(p) - np.log(t)))
            hits = [np.mean(worse < limit) for limit in self.thresholds]
            diff = p - t
            self.sum += hits + [(np.abs(diff) / t).mean(), (diff ** 2).mean() ** 0.5, np.abs(np.log10(p / t)).mean()]
            self.count += 1

    def accumulate(self):
        return {k: float(v) for k, v in zip(self.names, self.sum / self.count)}
