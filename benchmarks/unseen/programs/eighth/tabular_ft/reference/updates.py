import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


def groups(network):
    """What decays, and what does not: tokens, norms, scales, biases."""
    decayed, still = [], []
    for name, p in network.named_parameters():
        plain = name.startswith("tokeniser.") or "norm" in name or "before" in name or name.endswith(("bias", "scale"))
        (still if plain else decayed).append(p)
    return decayed, still


def build(model, c):
    decayed, still = groups(model.online)
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": c.weight_decay},
            {"params": still, "weight_decay": 0.0, "lr": c.lr * c.still_factor},
        ],
        lr=c.lr,
        betas=(c.beta1, c.beta2),
        eps=c.eps,
    )


def schedule(optimizer, c):
    warm = LinearLR(optimizer, start_factor=c.start, end_factor=1.0, total_iters=c.warmup)
    return SequentialLR(optimizer, [warm, CosineAnnealingLR(optimizer, c.cosine)], milestones=[c.warmup])


def step(model, optimizer, batch, objective, c):
    """Gradients of some parts of a batch together, clipped element by element; then the average follows."""
    optimizer.zero_grad()
    total = 0.0
    pieces = zip(*(batch[key].chunk(c.parts) for key in ("numbers", "codes", "labels")))
    for numbers, codes, labels in pieces:
        value = objective(model(numbers, codes), labels)["loss"] / c.parts
        value.backward()
        total = total + value.detach()
    torch.nn.utils.clip_grad_value_(model.online.parameters(), c.limit)
    optimizer.step()
    decay = model.follow(c.ema, c.ema_warmup)
    return {"loss": total, "decay": decay}
