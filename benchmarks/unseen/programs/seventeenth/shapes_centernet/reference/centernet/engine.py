import torch
from torch import nn


class WeightEMA:
    """A moving average of the weights; it follows faster in the beginning."""

    def __init__(self, model, decay, warmup):
        self.decay, self.warmup, self.updates = decay, warmup, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (self.warmup + self.updates))
        for name, p in model.named_parameters():
            self.shadow[name].mul_(decay).add_(p, alpha=1 - decay)

    @torch.no_grad()
    def gap(self, model):
        return sum(((self.shadow[name] - p) ** 2).sum() for name, p in model.named_parameters()).sqrt()


def parameter_groups(model, o):
    """The backbone learns slower; norms and biases do not decay."""
    groups = {}
    for name, p in model.named_parameters():
        backbone, decays = name.startswith("backbone."), p.ndim > 1
        group = groups.setdefault(
            (backbone, decays),
            {
                "params": [],
                "lr": o.lr * (o.backbone_factor if backbone else 1.0),
                "weight_decay": o.weight_decay if decays else 0.0,
            },
        )
        group["params"].append(p)
    return list(groups.values())


def make_optimizer(model, o):
    optimizer = torch.optim.AdamW(parameter_groups(model, o), lr=o.lr, betas=tuple(o.betas))
    optimizer.ema = WeightEMA(model, o.ema_decay, o.ema_warmup)
    return optimizer


def make_scheduler(optimizer, s):
    def factor(step):
        if step < s.warmup_steps:
            return s.warmup_start + (1 - s.warmup_start) * step / s.warmup_steps
        return s.gamma ** sum(step >= m for m in s.milestones)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_one_step(model, optimizer, images, targets, criterion, clip):
    optimizer.zero_grad(set_to_none=True)
    losses = criterion(model(images), targets)
    losses["loss"].backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.ema.update(model)
    report = {name: value.detach() for name, value in losses.items()}
    return {**report, "grad_norm": norm, "ema_gap": optimizer.ema.gap(model)}
