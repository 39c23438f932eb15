import torch

from .objective import forecast_loss


def build_optimizer(cfg, model):
    t = cfg.train
    return torch.optim.Adam(model.parameters(), lr=t.lr, betas=tuple(t.betas), eps=t.eps, weight_decay=t.weight_decay)


def build_scheduler(cfg, optimizer):
    """Linear to the peak, then with the inverse square root."""
    warmup = cfg.train.warmup
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (warmup / (step + 1)) ** 0.5)
    )


def pieces(batch, count):
    parts = {k: v.chunk(count) for k, v in batch.items()}
    return [dict(zip(parts, values)) for values in zip(*parts.values())]


def train_step(cfg, model, optimizer, batch):
    """One update from several small batches."""
    t = cfg.train
    optimizer.zero_grad()
    parts = pieces(batch, t.accumulate)
    total = kl = 0.0
    for part in parts:
        inputs = {k: v for k, v in part.items() if k != "labels"}
        outputs = model(**inputs)
        loss = forecast_loss(cfg, outputs, part["labels"])["loss"] / len(parts)
        loss.backward()
        total += loss.detach()
        kl += outputs["kl"].detach().mean() / len(parts)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), t.clip)
    optimizer.step()
    with torch.no_grad():
        model.kl_mean.mul_(t.kl_decay).add_((1 - t.kl_decay) * kl)
    return {"loss": total, "norm": norm, "kl": kl}
