import torch


class AdaBelief(torch.optim.Optimizer):
    """Zhuang et al., 2020; decoupled decay."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["s"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                d = p.grad - s["m"]
                s["s"].mul_(b2).addcmul_(d, d, value=1 - b2).add_(g["eps"])
                p.mul_(1 - g["lr"] * g["weight_decay"])
                den = (s["s"] / (1 - b2 ** s["t"])).sqrt().add_(g["eps"])
                p.addcdiv_(s["m"] / (1 - b1 ** s["t"]), den, value=-g["lr"])
