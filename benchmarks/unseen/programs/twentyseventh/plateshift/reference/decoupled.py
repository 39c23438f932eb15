import torch


class DecoupledAdam(torch.optim.Optimizer):
    """Adam with decoupled decay; the gradient of every parameter is clipped by its own norm."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, decay=0.0, clip=None):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, decay=decay, clip=clip))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad
                if group["clip"] is not None:
                    g = g * (group["clip"] / torch.clamp(g.norm(), min=group["clip"]))
                s = self.state[p]
                if not s:
                    s["step"] = 0
                    s["m"] = torch.zeros_like(p)
                    s["v"] = torch.zeros_like(p)
                s["step"] += 1
                s["m"].lerp_(g, 1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m = s["m"] / (1 - b1 ** s["step"])
                v = s["v"] / (1 - b2 ** s["step"])
                p.mul_(1 - group["lr"] * group["decay"])
                p.sub_(group["lr"] * m / (v.sqrt() + group["eps"]))
