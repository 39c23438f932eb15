"""Adamax with the floor inside the maximum, and a warm-up followed by a polynomial decay."""
import torch


class Adamax(torch.optim.Optimizer):
    def __init__(self, params, lr, beta1, beta2, eps, l2):
        super().__init__(params, dict(lr=lr, beta1=beta1, beta2=beta2, eps=eps, l2=l2))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["moment"] = torch.zeros_like(p)
                    state["peak"] = torch.zeros_like(p)
                state["step"] += 1
                g = p.grad + group["l2"] * p
                state["moment"].mul_(group["beta1"]).add_(g, alpha=1 - group["beta1"])
                torch.maximum(state["peak"] * group["beta2"] + group["eps"], g.abs(), out=state["peak"])
                rate = group["lr"] / (1 - group["beta1"] ** state["step"])
                p.sub_(rate * state["moment"] / state["peak"])


class WarmPolynomial:
    def __init__(self, optimizer, cfg):
        self.optimizer, self.cfg, self.count = optimizer, cfg, 0
        self.apply()

    @staticmethod
    def value(cfg, t):
        if t < cfg["warmup"]:
            return cfg["start_lr"] + (cfg["lr"] - cfg["start_lr"]) * t / cfg["warmup"]
        left = 1 - min(t - cfg["warmup"], cfg["decay_steps"]) / cfg["decay_steps"]
        return cfg["end_lr"] + (cfg["lr"] - cfg["end_lr"]) * left ** cfg["power"]

    def apply(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.value(self.cfg, self.count) * group["scale"]

    def step(self):
        self.count += 1
        self.apply()

    def get_last_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]
        self.apply()


def make_optimizer(model, cfg):
    table = list(model.encoder.embed.parameters())
    rest = [p for n, p in model.named_parameters() if not n.startswith("encoder.embed.")]
    lr = WarmPolynomial.value(cfg, 0)
    return Adamax(
        [{"params": rest, "scale": 1.0, "lr": lr}, {"params": table, "scale": cfg["embed_scale"],
                                                    "lr": lr * cfg["embed_scale"]}],
        lr=lr, beta1=cfg["beta1"], beta2=cfg["beta2"], eps=cfg["eps"], l2=cfg["l2"])


@torch.no_grad()
def clip_each(parameters, limit):
    for p in parameters:
        if p.grad is not None:
            norm = p.grad.norm()
            if norm > limit:
                p.grad.mul_(limit / norm)
