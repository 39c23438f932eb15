import torch

from . import settings
from .registry import OPTIMIZERS


@OPTIMIZERS.register("laprop")
class LaProp(torch.optim.Optimizer):
    """Adam with the momentum taken of the normalised gradient (Ziyin et al., 2020), decay decoupled."""

    def __init__(self, params, lr, betas, eps, weight_decay):
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
                    state["step"] = 0
                    state["momentum"] = torch.zeros_like(p)
                    state["square"] = torch.zeros_like(p)
                state["step"] += 1
                t, m, v = state["step"], state["momentum"], state["square"]
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                scaled = p.grad / ((v / (1 - b2 ** t)).sqrt() + group["eps"])
                m.mul_(b1).add_(scaled, alpha=1 - b1)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(m, alpha=-group["lr"] / (1 - b1 ** t))


OPTIMIZERS["adam"] = torch.optim.Adam


def no_decay(module):
    plain = [p for p in module.parameters() if p.ndim < 2]
    heavy = [p for p in module.parameters() if p.ndim >= 2]
    return heavy, plain


class Pair:
    """The critics' optimizer and the actor's, as one."""

    def __init__(self, agent, cfg=settings.optimizers):
        heavy, plain = [a + b for a, b in zip(no_decay(agent.critic), no_decay(agent.value))]
        groups = [{"params": heavy}, {"params": plain, "weight_decay": 0.0}]
        self.critic = OPTIMIZERS.build(cfg["critic"], params=groups)
        self.actor = OPTIMIZERS.build(cfg["actor"], params=agent.actor.parameters())

    def step(self):
        self.critic.step()
        self.actor.step()

    def zero_grad(self):
        self.critic.zero_grad()
        self.actor.zero_grad()


def actor_schedule(pair, cfg=settings.schedule):
    """Cosine from the full rate to a tenth of it."""
    top = pair.actor.param_groups[0]["lr"]
    return torch.optim.lr_scheduler.CosineAnnealingLR(pair.actor, cfg["total"], eta_min=cfg["final"] * top)
