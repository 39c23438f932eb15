import torch


class Adafactor(torch.optim.Optimizer):
    """Adafactor with a given rate: factored second moments, update clipping, steps relative to the weights' size."""

    def __init__(self, params, lr, decay=0.8, clip=1.0, eps=(1e-30, 1e-3), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, decay=decay, clip=clip, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            tiny, least = group["eps"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    if p.ndim >= 2:
                        state["row"] = p.new_zeros(p.shape[:-1])
                        state["col"] = p.new_zeros(p.shape[:-2] + p.shape[-1:])
                    else:
                        state["v"] = torch.zeros_like(p)
                state["step"] += 1
                beta = 1 - state["step"] ** -group["decay"]
                square = p.grad.square() + tiny
                if p.ndim >= 2:
                    row = state["row"].mul_(beta).add_(square.mean(-1), alpha=1 - beta)
                    col = state["col"].mul_(beta).add_(square.mean(-2), alpha=1 - beta)
                    scale = (row / row.mean(-1, keepdim=True)).rsqrt()[..., None] * col.rsqrt()[..., None, :]
                else:
                    scale = state["v"].mul_(beta).add_(square, alpha=1 - beta).rsqrt()
                update = p.grad * scale
                update = update / (update.square().mean().sqrt() / group["clip"]).clamp(min=1.0)
                rate = group["lr"] * max(float(p.square().mean().sqrt()), least)
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=rate)
