import torch


class FTRL(torch.optim.Optimizer):
    """Follow the regularised leader, as in McMahan et al. 2013."""

    def __init__(self, params, alpha=0.1, beta=1.0, l1=0.0, l2=0.0):
        super().__init__(params, dict(lr=alpha, beta=beta, l1=l1, l2=l2))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            alpha, beta, l1, l2 = group["lr"], group["beta"], group["l1"], group["l2"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["z"], state["n"] = torch.zeros_like(p), torch.zeros_like(p)
                z, n, g = state["z"], state["n"], p.grad
                sigma = ((n + g * g).sqrt() - n.sqrt()) / alpha
                z.add_(g - sigma * p)
                n.add_(g * g)
                w = -(z - z.sign() * l1) / ((beta + n.sqrt()) / alpha + l2)
                p.copy_(torch.where(z.abs() <= l1, torch.zeros_like(w), w))


class WideAndDeep:
    """FTRL for the linear part, Adagrad for the rest."""

    def __init__(self, model, lr=0.02, weight_decay=1e-3):
        wide = [p for n, p in model.named_parameters() if n.startswith("linear.") or n == "bias"]
        deep = [p for n, p in model.named_parameters() if not (n.startswith("linear.") or n == "bias")]
        self.parts = [FTRL(wide, alpha=0.05, beta=1.0, l1=0.02, l2=0.1),
                      torch.optim.Adagrad(deep, lr=lr, weight_decay=weight_decay, initial_accumulator_value=0.1, eps=1e-7)]

    @property
    def param_groups(self):
        return [g for part in self.parts for g in part.param_groups]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()
