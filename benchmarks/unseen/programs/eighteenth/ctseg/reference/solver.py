import torch
from torch.optim.lr_scheduler import PolynomialLR

from .registry import CONFIG

CFG = CONFIG["solver"]


class Ema:
    """Shadow weights with a decay that warms up."""

    def __init__(self, model, decay):
        self.decay, self.updates = decay, 0
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for s, p in zip(self.shadow, model.parameters()):
            s.mul_(d).add_(p, alpha=1 - d)

    def distance(self, model):
        return torch.stack([(s - p.detach()).pow(2).sum() for s, p in zip(self.shadow, model.parameters())]).sum().sqrt()


def build_optimizer(model):
    decay, rest = [], []
    for name, p in model.named_parameters():
        (rest if p.ndim == 1 or name.startswith("heads") else decay).append(p)
    optimizer = torch.optim.SGD([{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=CFG["lr"],
                                momentum=CFG["momentum"], nesterov=True, weight_decay=CFG["decay"])
    optimizer.ema = Ema(model, CFG["ema"])
    return optimizer


def build_scheduler(optimizer):
    return PolynomialLR(optimizer, total_iters=CFG["total"], power=CFG["power"])
