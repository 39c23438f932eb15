import math

import paddle
from paddle import nn

from .parts import Gaussians, KernelFeatures, Refine, affine


class DensityNet(nn.Layer):
    def __init__(self, inputs=8, waves=48, width=32, depth=2, count=4):
        super().__init__()
        self.kernel = KernelFeatures(inputs, waves)
        self.enter = affine(waves + inputs, width)
        self.refine = nn.Sequential(*[Refine(width, 2 * width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, epsilon=1e-5)
        self.mixture = Gaussians(width, count)

    def forward(self, x):
        hidden = self.enter(paddle.concat([self.kernel(x), x], axis=1))
        return self.mixture(self.norm(self.refine(hidden)))


def log_density(mixture, target):
    """Of each row; the precision is L L^T with L = [[a, 0], [c, b]]."""
    away = target.unsqueeze(1) - mixture["mu"]
    a, b, c = mixture["diag"][..., 0], mixture["diag"][..., 1], mixture["off"]
    first = a * away[..., 0] + c * away[..., 1]
    second = b * away[..., 1]
    log_normal = paddle.log(a * b) - 0.5 * (first.square() + second.square()) - math.log(2 * math.pi)
    return paddle.logsumexp(mixture["log_pi"] + log_normal, axis=1)


def objective(mixture, target, spread=0.05, pull=1e-3):
    usage = mixture["log_pi"].exp().mean(axis=0)
    order = paddle.sum(usage * paddle.log(usage.clip(min=1e-12)))
    size = 2.0 * mixture["mu"].square().mean()
    return spread * order + pull * size - log_density(mixture, target).mean()


def moments(mixture):
    share = mixture["log_pi"].exp().unsqueeze(-1)
    a, b, c = mixture["diag"][..., 0], mixture["diag"][..., 1], mixture["off"]
    inner = paddle.stack([1.0 / a.square() + (c / (a * b)).square(), 1.0 / b.square()], axis=-1)
    mean = (share * mixture["mu"]).sum(axis=1)
    between = (share * (mixture["mu"] - mean.unsqueeze(1)).square()).sum(axis=1)
    return mean, (share * inner).sum(axis=1) + between


@paddle.no_grad()
def figures(mixture, target):
    mean, variance = moments(mixture)
    deviation = variance.sqrt()
    z = (target - mean) / deviation
    density = paddle.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    crps = deviation * (z * paddle.erf(z / math.sqrt(2.0)) + 2 * density - 1 / math.sqrt(math.pi))
    entropy = -(mixture["log_pi"].exp() * mixture["log_pi"]).sum(axis=1)
    return {
        "nll": -log_density(mixture, target).mean(),
        "rmse": (target - mean).square().mean(axis=0).sqrt().mean(),
        "coverage90": (z.abs() <= 1.6449).astype(z.dtype).mean(),
        "crps": crps.mean(),
        "used": entropy.exp().mean(),
    }
