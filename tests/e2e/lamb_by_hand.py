"""Lamb for PyTorch, which has none."""

from __future__ import annotations

import torch


class Lamb(torch.optim.Optimizer):
    """Lamb by hand, with its betas as they are written."""

    def __init__(self, params, lr, betas, eps, decay):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(first).add_(p.grad, alpha=1 - first)
                state["v"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                m, v = state["m"] / (1 - first ** state["step"]), state["v"] / (1 - second ** state["step"])
                update = m / (v.sqrt() + group["eps"]) + group["decay"] * p
                size, step = p.norm(), update.norm()
                p.sub_(group["lr"] * (size / step if size > 0 and step > 0 else 1.0) * update)
