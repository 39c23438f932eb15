import math

import paddle
from paddle.optimizer.lr import LambdaDecay


def adam(model, settings):
    tables = [model.items.weight, model.places.weight]
    ids = {id(p) for p in tables}
    others = [p for p in model.parameters() if id(p) not in ids]
    return paddle.optimizer.Adam(
        learning_rate=settings.rate,
        beta1=settings.beta1,
        beta2=settings.beta2,
        parameters=[
            {"params": others},
            {"params": tables, "learning_rate": settings.table_factor},
        ],
    )


def warm_cosine(settings):
    def factor(step):
        if step < settings.warm:
            return (step + 1) / settings.warm
        done = (step - settings.warm) / (settings.total - settings.warm)
        wave = 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
        return settings.lowest + (1.0 - settings.lowest) * wave

    return factor


def schedule(optimizer, adam_settings, cosine_settings):
    rates = LambdaDecay(adam_settings.rate, warm_cosine(cosine_settings))
    optimizer.set_lr_scheduler(rates)
    return rates


def shrink_seen_rows(weight, seen, amount):
    seen = paddle.unique(seen)
    seen = seen[seen > 0]
    factor = paddle.ones([weight.shape[0], 1], dtype=weight.dtype)
    factor[seen] = 1.0 - amount
    weight.set_value(weight * factor)


def step(model, optimizer, batch, objective, settings):
    clicks, labels = batch
    model.train()
    cost = objective(model(clicks), labels)
    cost.backward()
    optimizer.step()
    optimizer.clear_grad()
    with paddle.no_grad():
        parts = (clicks, labels["target"], labels["negatives"])
        seen = paddle.concat([part.flatten() for part in parts])
        rate = optimizer.get_lr() * settings.table_factor
        shrink_seen_rows(model.items.weight, seen, rate * settings.decay)
    return float(cost)
