import paddle
from paddle.nn.utils import clip_grad_norm_

from .objectives import objective


def optimizer_of(model, peak=0.05, decay=1e-3, steps=20):
    trained = [p for p in model.parameters() if not p.stop_gradient]
    rate = paddle.optimizer.lr.CosineAnnealingDecay(peak, T_max=steps)
    return paddle.optimizer.Momentum(
        rate,
        momentum=0.9,
        parameters=[
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
        ],
    )


def step(model, optimizer, batch, most=1.0):
    first, second, labels = batch
    model.follow()
    outputs = model(first, second)
    cost = objective(outputs, labels)
    cost.backward()
    clip_grad_norm_([p for p in model.parameters() if not p.stop_gradient], most)
    optimizer.step()
    optimizer.clear_grad()
    model.remember(outputs["k"])
    return cost.detach()
