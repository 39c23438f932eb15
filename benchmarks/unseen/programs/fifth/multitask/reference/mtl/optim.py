import torch
from torch.optim import Optimizer

from .registry import OPTIMS, SCHEDULES


@OPTIMS.register
class Lamb(Optimizer):
    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["t"], st["m"], st["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                st["t"] += 1
                st["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                st["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m, v = st["m"] / (1 - b1 ** st["t"]), st["v"] / (1 - b2 ** st["t"])
                u = m / (v.sqrt() + g["eps"])
                ratio = 1.0
                if p.ndim > 1:                           # vectors: no decay, no trust ratio
                    u = u + g["weight_decay"] * p
                    pn, un = p.norm().clamp(0, 10), u.norm()
                    if pn > 0 and un > 0:
                        ratio = pn / un
                p.sub_(g["lr"] * ratio * u)


@OPTIMS.register
class RMSMomentum(Optimizer):
    def __init__(self, params, lr, alpha, eps, momentum, weight_decay):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["sq"], st["buf"] = torch.zeros_like(p), torch.zeros_like(p)
                d = p.grad + g["weight_decay"] * p
                st["sq"].mul_(g["alpha"]).addcmul_(d, d, value=1 - g["alpha"])
                st["buf"].mul_(g["momentum"]).add_(d / (st["sq"].sqrt() + g["eps"]))
                p.sub_(g["lr"] * st["buf"])


class Duo:
    """two optimizers behind one step(), with accumulation over micro-batches and one global clip"""

    def __init__(self, model, cfg):
        body = list(model.backbone.parameters())
        rest = [p for n, p in model.named_parameters() if not n.startswith("backbone.")]
        self.opts = [OPTIMS.build(cfg["backbone"], body), OPTIMS.build(cfg["heads"], rest)]
        self.clip, self.every, self.micro = cfg["clip"], cfg["accumulate"], 0
        self.base = [o.param_groups[0]["lr"] for o in self.opts]

    @property
    def param_groups(self):
        return [g for o in self.opts for g in o.param_groups]

    def lrs(self):
        return [g["lr"] for g in self.param_groups]

    def step(self):
        self.micro += 1
        if self.micro % self.every:
            return
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g.div_(self.every)
        norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
        if norm > self.clip:
            for g in grads:
                g.mul_(self.clip / norm)
        for o in self.opts:
            o.step()

    def zero_grad(self):
        if self.micro % self.every == 0:
            for o in self.opts:
                o.zero_grad()


@SCHEDULES.register
class WarmPoly:
    """counted in micro-batches by the loop, converted to optimizer updates here"""

    def __init__(self, opt, warmup, total, power, floor):
        self.opt, self.warmup, self.total, self.power, self.floor, self.calls = opt, warmup, total, power, floor, 0
        self.apply()

    def apply(self):
        u = self.calls // self.opt.every
        if u < self.warmup:
            f = (u + 1) / self.warmup
        else:
            f = max(self.floor, (1 - min(1.0, (u - self.warmup) / (self.total - self.warmup))) ** self.power)
        for g, b in zip(self.opt.param_groups, self.opt.base):
            g["lr"] = b * f

    def step(self):
        self.calls += 1
        self.apply()
