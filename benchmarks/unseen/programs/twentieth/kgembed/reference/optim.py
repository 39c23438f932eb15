import torch


class ForgettingAdagrad(torch.optim.Optimizer):
    """Adagrad whose sum of squares forgets, with a rate that falls with 1/t and decoupled decay."""

    def __init__(self, params, lr=0.05, lr_decay=2e-3, forget=0.98, start=1e-3, eps=1e-4, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, forget=forget, start=start, eps=eps,
                                      weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["step"] = 0
                    s["sum"] = torch.full_like(p, g["start"])
                rate = g["lr"] / (1 + s["step"] * g["lr_decay"])
                s["step"] += 1
                p.mul_(1 - rate * g["weight_decay"])
                s["sum"].mul_(g["forget"]).addcmul_(p.grad, p.grad)
                p.addcdiv_(p.grad, s["sum"].sqrt().add_(g["eps"]), value=-rate)


def make_optimizer(model):
    tables = [model.entity]
    rotations = [model.phase]
    rest = [p for n, p in model.named_parameters() if n not in ("entity", "phase")]
    return ForgettingAdagrad([{"params": tables, "weight_decay": 0.02},
                              {"params": rotations, "lr": 0.01},
                              {"params": rest}], lr=0.05)


def make_scheduler(optimizer):
    """Five warm steps, then halved after 40 and 60 updates."""
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda k: min(1.0, (k + 1) / 5) * 0.5 ** ((k >= 40) + (k >= 60)))
