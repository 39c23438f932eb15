import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.optimizer import Optimizer


class AdamW(Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                m, v, t = state["m"], state["v"], state["t"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m_hat = m / (1 - b1 ** t)
                v_hat = v / (1 - b2 ** t)
                p.add_(m_hat / (v_hat.sqrt() + group["eps"]), alpha=-group["lr"])


def make_optimizer(model, settings):
    decay, plain, balance = [], [], []
    for name, p in model.named_parameters():
        if name == "log_vars":
            balance.append(p)
        elif name.startswith("tokenizer.") or p.ndim < 2:
            plain.append(p)
        else:
            decay.append(p)
    wd = settings("optim", "weight_decay", float)
    groups = [
        {"params": decay, "weight_decay": wd},
        {"params": plain, "weight_decay": 0.0},
        {"params": balance, "weight_decay": 0.0, "lr": settings("optim", "balance_lr", float)},
    ]
    betas = (settings("optim", "beta1", float), settings("optim", "beta2", float))
    return AdamW(groups, settings("optim", "lr", float), betas, settings("optim", "eps", float))


def make_schedule(optimizer, settings):
    warm = settings("optim", "warmup", int)
    rest = settings("optim", "total", int) - warm
    up = LinearLR(optimizer, start_factor=settings("optim", "warmup_start", float), total_iters=warm)
    return SequentialLR(optimizer, [up, CosineAnnealingLR(optimizer, T_max=rest)], milestones=[warm])
