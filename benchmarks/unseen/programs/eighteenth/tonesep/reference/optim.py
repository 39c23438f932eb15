"""LAMB without the correction of v's start, and its schedule."""
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from .config import TrainConfig


class Lamb(Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0, max_trust=10.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, max_trust=max_trust))

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
                m, v = state["m"], state["v"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m_hat = m / (1 - b1 ** state["t"])
                v_hat = v / (1 - b2 ** state["t"])
                update = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                trust = 1.0
                if group["weight_decay"] > 0:  # gains, offsets and biases take plain Adam steps
                    w_norm, u_norm = p.norm(), update.norm()
                    trust = torch.where((w_norm > 0) & (u_norm > 0), w_norm / u_norm, torch.ones_like(w_norm))
                    trust = trust.clamp(max=group["max_trust"])
                p.sub_(group["lr"] * trust * update)


def build_optimizer(model, cfg=TrainConfig()):
    decay = [p for p in model.parameters() if p.ndim > 1 and min(p.shape[0], p.shape[1]) > 1]
    chosen = {id(p) for p in decay}
    plain = [p for p in model.parameters() if id(p) not in chosen]
    # depthwise kernels (C, 1, K) and gains (1, C, 1) land in the second group too
    return Lamb([{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}],
                lr=cfg.lr, betas=cfg.betas)


def build_scheduler(optimizer, cfg=TrainConfig()):
    def factor(step):
        if step < cfg.warmup:
            return (step + 1) / (cfg.warmup + 1)
        return 0.5 ** ((step - cfg.warmup) / cfg.half_life)

    return LambdaLR(optimizer, factor)
