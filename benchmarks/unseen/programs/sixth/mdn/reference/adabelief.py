import torch
from torch.optim import Optimizer


class AdaBelief(Optimizer):
    """AdaBelief with gradient centralisation, decoupled decay, warm-up and clipping by the global norm."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-12, weight_decay=0.0, clip=None, warmup=0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.clip, self.warmup = clip, warmup

    @torch.no_grad()
    def clip_gradients(self):
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
        if norm > self.clip:
            for g in grads:
                g.mul_(self.clip / norm)

    @torch.no_grad()
    def step(self, closure=None):
        if self.clip is not None:
            self.clip_gradients()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                if grad.dim() > 1:
                    # mean over the inputs of every output unit
                    grad = grad - grad.mean(dim=1, keepdim=True)
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["s"] = torch.zeros_like(p)
                state["step"] += 1
                t, m, s = state["step"], state["m"], state["s"]
                lr = group["lr"] * (min(1.0, t / self.warmup) if self.warmup else 1.0)
                m.mul_(beta1).add_(grad, alpha=1 - beta1)
                belief = grad - m
                s.mul_(beta2).addcmul_(belief, belief, value=1 - beta2).add_(group["eps"])
                denom = (s / (1 - beta2**t)).sqrt().add_(group["eps"])
                p.mul_(1 - lr * group["weight_decay"])
                p.addcdiv_(m, denom, value=-lr / (1 - beta1**t))


def build(model, lr=4e-3, weight_decay=0.05):
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    return AdaBelief(
        [{"params": decay, "weight_decay": weight_decay}, {"params": plain}],
        lr=lr,
        betas=(0.9, 0.98),
        eps=1e-10,
        clip=0.5,
        warmup=4,
    )
