import torch


class AdaBelief(torch.optim.Optimizer):
    """Zhuang et al. 2020, with decoupled weight decay"""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-10, weight_decay=0.0):
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
                    state["m"], state["s"] = torch.zeros_like(p), torch.zeros_like(p)
                state["t"] += 1
                t, m, s = state["t"], state["m"], state["s"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                d = p.grad - m
                s.mul_(b2).addcmul_(d, d, value=1 - b2).add_(group["eps"])
                p.add_(m / (1 - b1 ** t) / ((s / (1 - b2 ** t)).sqrt() + group["eps"]), alpha=-group["lr"])


class GanOptimizers:
    def __init__(self, g, d):
        self.g, self.d = g, d

    @property
    def param_groups(self):
        return self.g.param_groups + self.d.param_groups

    def zero_grad(self):
        self.g.zero_grad()
        self.d.zero_grad()

    def step(self):
        self.g.step()
        self.d.step()
