import torch
from torch.optim.lr_scheduler import LRScheduler


class Yogi(torch.optim.Optimizer):
    """Yogi with decoupled decay; all gradients together are clipped by their norm first."""

    def __init__(self, params, lr, betas, eps, weight_decay, max_norm):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.max_norm = max_norm

    @torch.no_grad()
    def step(self, closure=None):
        active = [(g, p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        if not active:
            return
        norm = torch.sqrt(sum(p.grad.pow(2).sum() for _, p in active))
        scale = (self.max_norm / norm.clamp(min=1e-30)).clamp(max=1.0)
        for group, p in active:
            b1, b2 = group["betas"]
            grad = p.grad * scale
            state = self.state[p]
            if not state:
                state["step"] = 0
                state["m"] = torch.zeros_like(p)
                state["v"] = torch.full_like(p, 1e-6)
            state["step"] += 1
            m, v = state["m"], state["v"]
            m.mul_(b1).add_(grad, alpha=1 - b1)
            square = grad * grad
            v.sub_((1 - b2) * torch.sign(v - square) * square)
            c1 = 1 - b1 ** state["step"]
            c2 = 1 - b2 ** state["step"]
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.sub_(group["lr"] * (m / c1) / ((v / c2).sqrt() + group["eps"]))


class WarmStep(LRScheduler):
    """From a fraction of the rate up to it in a line, then a step down every so many updates."""

    def __init__(self, optimizer, warmup, start, step_size, gamma):
        self.warmup, self.start, self.step_size, self.gamma = warmup, start, step_size, gamma
        super().__init__(optimizer)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            factor = self.start + (1 - self.start) * t / self.warmup
        else:
            factor = self.gamma ** ((t - self.warmup) // self.step_size)
        return [base * factor for base in self.base_lrs]


def groups(model, weight_decay):
    decay, rest = [], []
    for name, p in model.named_parameters():
        (rest if p.ndim == 1 or name in ("embed.position", "embed.channel") else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
