"""Adagrad with decoupled weight decay, and its schedule."""
from bisect import bisect_right

import torch


class DecoupledAdagrad(torch.optim.Optimizer):
    def __init__(self, params, lr, initial_accumulator, eps, weight_decay):
        super().__init__(params, dict(lr=lr, initial=initial_accumulator, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["sum"] = torch.full_like(parameter, group["initial"])
                state["sum"].addcmul_(parameter.grad, parameter.grad)
                parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(parameter.grad, state["sum"].sqrt() + group["eps"], value=-group["lr"])


def make_optimizer(model, config):
    decayed = [p for name, p in model.named_parameters() if name.endswith(("identity.weight", "reader.weight"))]
    ids = {id(p) for p in decayed}
    others = [p for p in model.parameters() if id(p) not in ids]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return DecoupledAdagrad(groups, config.lr, config.initial_accumulator, config.eps, config.weight_decay)


def make_scheduler(optimizer, config):
    def factor(step):
        if step < config.warmup:
            return (step + 1) / config.warmup
        return config.gamma ** bisect_right(config.milestones, step)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
