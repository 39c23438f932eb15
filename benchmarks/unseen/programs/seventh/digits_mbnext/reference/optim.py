import torch


class RMSpropTF(torch.optim.Optimizer):
    """RMSprop as TensorFlow has it: epsilon inside the root, the rate inside the momentum buffer."""

    def __init__(self, params, lr, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["square_avg"], state["momentum_buffer"] = torch.zeros_like(p), torch.zeros_like(p)
                grad = p.grad.add(p, alpha=group["weight_decay"])
                state["square_avg"].mul_(group["alpha"]).addcmul_(grad, grad, value=1 - group["alpha"])
                rms = state["square_avg"].add(group["eps"]).sqrt()
                state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, rms, value=group["lr"])
                p.sub_(state["momentum_buffer"])


def param_groups(model, weight_decay):
    decay, no_decay = [], []
    for _, p in model.named_parameters():
        (no_decay if p.ndim <= 1 else decay).append(p)
    return [{"params": no_decay, "weight_decay": 0.0}, {"params": decay, "weight_decay": weight_decay}]
