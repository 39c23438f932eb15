"""Criterion, optimizer, learning rates."""
import paddle
from paddle import nn
from scipy.stats import norm

from .catalog import part


@part("criterion", "beta-nll")
def beta_nll(power, tail_weight, tail):
    z = float(norm.ppf(tail))

    def criterion(outputs, labels):
        mean, scale = outputs["mean"], outputs["scale"]
        error = labels.astype(mean.dtype) - mean
        nll = paddle.log(scale) + 0.5 * paddle.square(error / scale)
        weight = paddle.pow(scale.detach(), 2 * power)
        below = error - z * scale
        pinball = paddle.where(below >= 0, tail * below, (tail - 1) * below)
        return paddle.mean(weight * nll) + tail_weight * paddle.mean(pinball)

    return criterion


@part("rates", "cosine")
def cosine(peak, warm, updates, least):
    falling = paddle.optimizer.lr.CosineAnnealingDecay(peak, T_max=updates - warm, eta_min=least)
    return paddle.optimizer.lr.LinearWarmup(falling, warmup_steps=warm, start_lr=peak / (warm + 1), end_lr=peak)


@part("solver", "adamw")
def adamw(model, rates, beta1, beta2, tiny, decay, query_factor):
    tables = [layer.weight for layer in model.sublayers() if isinstance(layer, nn.Embedding)]
    of_tables = {id(p) for p in tables}
    others = [p for p in model.parameters() if id(p) not in of_tables]
    return paddle.optimizer.AdamW(
        learning_rate=rates,
        beta1=beta1,
        beta2=beta2,
        epsilon=tiny,
        parameters=[
            {"params": [p for p in others if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
            {"params": tables, "weight_decay": 0.0, "learning_rate": query_factor},
        ],
    )
