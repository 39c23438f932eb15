import torch
from torch.optim import Optimizer


class Lamb(Optimizer):
    """LAMB (You et al., 2020) with the clipping of the whole gradient before the moments.

    Groups with weight_decay = 0 take Adam's step, without a trust ratio.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, max_grad_norm=1.0, max_weight_norm=10.0):
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, defaults)
        self.max_grad_norm, self.max_weight_norm = max_grad_norm, max_weight_norm

    def clip_factor(self):
        squares = [p.grad.pow(2).sum() for group in self.param_groups for p in group["params"] if p.grad is not None]
        if not squares:
            return 1.0
        norm = torch.stack(squares).sum().sqrt()
        return (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)

    @torch.no_grad()
    def step(self, closure=None):
        factor = self.clip_factor()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                grad = p.grad * factor
                state["m"].mul_(beta1).add_(grad, alpha=1 - beta1)
                state["v"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                m = state["m"] / (1 - beta1 ** state["step"])
                v = state["v"] / (1 - beta2 ** state["step"])
                update = m / (v.sqrt() + group["eps"])
                ratio = 1.0
                if group["weight_decay"]:
                    update = update + group["weight_decay"] * p
                    ratio = self.trust(p, update)
                p.add_(update * ratio, alpha=-group["lr"])

    def trust(self, p, update):
        weight_norm, update_norm = p.norm().clamp(max=self.max_weight_norm), update.norm()
        if weight_norm == 0 or update_norm == 0:
            return 1.0
        return weight_norm / update_norm
