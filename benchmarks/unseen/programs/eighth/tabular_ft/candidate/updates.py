import paddle
from paddle.optimizer import lr

STILL = ("bias", "scale")


def groups(network):
    """What decays, and what does not: tokens, norms, scales, biases."""
    decayed, still = [], []
    for name, p in network.named_parameters():
        plain = name.startswith("tokeniser.") or "norm" in name or "before" in name or name.endswith(STILL)
        (still if plain else decayed).append(p)
    return decayed, still


def schedule(rate, c):
    cosine = lr.CosineAnnealingDecay(rate, c.cosine)
    return lr.LinearWarmup(cosine, c.warmup, start_lr=c.start * rate, end_lr=rate)


def build(model, c, rates):
    decayed, still = groups(model.online)
    return paddle.optimizer.AdamW(
        learning_rate=schedule(c.lr, rates),
        beta1=c.beta1,
        beta2=c.beta2,
        epsilon=c.eps,
        parameters=[
            {"params": decayed, "weight_decay": c.weight_decay},
            {"params": still, "weight_decay": 0.0, "learning_rate": c.still_factor},
        ],
    )


def step(model, optimizer, batch, objective, c):
    """Gradients of some parts of a batch together, clipped element by element; then the average follows."""
    pieces = zip(*(paddle.chunk(batch[key], c.parts) for key in ("numbers", "codes", "labels")))
    total = 0.0
    for numbers, codes, labels in pieces:
        value = objective(model(numbers, codes), labels)["loss"] / c.parts
        value.backward()
        total = total + value.detach()
    paddle.nn.utils.clip_grad_value_(model.online.parameters(), c.limit)
    optimizer.step()
    optimizer.clear_grad()
    decay = model.follow(c.ema, c.ema_warmup)
    return {"loss": total, "decay": decay}
