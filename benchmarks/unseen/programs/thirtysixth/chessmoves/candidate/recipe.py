"""How it is trained."""
from bisect import bisect_right

import paddle
from paddle import nn

from .judging import objective

BASE = 0.05


def rate_factor(update):
    warm = 0.25 + 0.75 * min(update, 6) / 6
    return warm * 0.3 ** bisect_right([18, 30], update)


def solver(model):
    weights = [layer.weight for layer in model.sublayers() if isinstance(layer, (nn.Linear, nn.Conv2D))]
    known = set(map(id, weights))
    rest = [p for p in model.parameters() if id(p) not in known]
    return paddle.optimizer.Momentum(
        learning_rate=paddle.optimizer.lr.LambdaDecay(BASE, rate_factor),
        momentum=0.9,
        use_nesterov=True,
        parameters=[{"params": weights, "weight_decay": 1e-3}, {"params": rest, "weight_decay": 0.0}],
    )


def update(model, optimizer, batch):
    *inputs, row = batch
    terms = objective(model(*inputs), row)
    terms["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=2.0)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": terms["loss"].detach(), "norm": norm.detach()}
