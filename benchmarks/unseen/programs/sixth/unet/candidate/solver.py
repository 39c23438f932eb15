from paddle.optimizer import Momentum
from paddle.optimizer.lr import LinearWarmup, PolynomialDecay


def schedule(opts):
    poly = PolynomialDecay(opts.base_lr, decay_steps=opts.iters - opts.warmup, end_lr=0.0, power=opts.power)
    return LinearWarmup(poly, opts.warmup, start_lr=opts.warmup_ratio * opts.base_lr, end_lr=opts.base_lr)


def solver(model, opts):
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    return Momentum(
        learning_rate=schedule(opts),
        momentum=opts.momentum,
        use_nesterov=True,
        parameters=[
            {"params": weights, "weight_decay": opts.l2},
            {"params": others, "weight_decay": 0.0},
        ],
    )
