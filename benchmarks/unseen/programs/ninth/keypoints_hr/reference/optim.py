"""SGD with lookahead, and a stepped schedule with a warm-up."""
import torch
from torch.optim.lr_scheduler import LambdaLR

from .registry import EXPERIMENT


class Lookahead:
    """Every `every` steps the slow weights go a part of the way to the fast ones, which start again from there."""

    def __init__(self, base, every, alpha):
        self.base, self.every, self.alpha = base, every, alpha
        self.count, self.slow = 0, None

    @property
    def param_groups(self):
        return self.base.param_groups

    def parameters(self):
        return [p for group in self.base.param_groups for p in group["params"]]

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        if self.slow is None:
            self.slow = [p.detach().clone() for p in self.parameters()]
        self.base.step()
        self.count += 1
        if self.count % self.every == 0:
            for slow, fast in zip(self.slow, self.parameters()):
                slow.add_(fast - slow, alpha=self.alpha)
                fast.copy_(slow)

    def state_dict(self):
        slow = None if self.slow is None else [p.clone() for p in self.slow]
        return {"base": self.base.state_dict(), "count": self.count, "slow": slow}

    def load_state_dict(self, state):
        self.base.load_state_dict(state["base"])
        self.count, self.slow = state["count"], state["slow"]


def build(model):
    settings = dict(EXPERIMENT["optimizer"])
    decay = settings.pop("weight_decay")
    kernels = [p for p in model.parameters() if p.ndim == 4]
    others = [p for p in model.parameters() if p.ndim != 4]
    base = torch.optim.SGD([{"params": kernels, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}], **settings)
    return Lookahead(base, **EXPERIMENT["lookahead"])


def schedule(optimizer):
    s = EXPERIMENT["schedule"]

    def factor(step):
        if step < s["warmup"]:
            return s["start"] + (1 - s["start"]) * step / s["warmup"]
        return s["gamma"] ** sum(step >= milestone for milestone in s["milestones"])

    return LambdaLR(optimizer.base, factor)
