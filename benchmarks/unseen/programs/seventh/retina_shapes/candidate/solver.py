import paddle

from .settings import CFG


class WarmupSteps(paddle.optimizer.lr.LRScheduler):
    def __init__(self, lr, warmup, start, drops, gamma):
        self.warmup, self.start, self.drops, self.gamma = warmup, start, drops, gamma
        super().__init__(lr)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            return self.base_lr * (self.start + (1 - self.start) * t / self.warmup)
        return self.base_lr * self.gamma ** len([d for d in self.drops if t >= d])


def make_solver(net):
    s = CFG["solver"]
    groups = {"matrix": [], "vector": [], "bias": []}
    for name, p in net.named_parameters():
        plain_bias = name.endswith(".bias") and name.rsplit(".", 2)[1] in ("cls_out", "box_out")
        groups["bias" if plain_bias else "vector" if p.ndim == 1 else "matrix"].append(p)
    return paddle.optimizer.Momentum(
        WarmupSteps(s["lr"], s["warmup"], s["start"], s["drops"], s["gamma"]),
        momentum=s["momentum"],
        parameters=[
            {"params": groups["matrix"], "weight_decay": s["decay"]},
            {"params": groups["vector"], "weight_decay": 0.0},
            {"params": groups["bias"], "weight_decay": 0.0, "learning_rate": s["bias_factor"]},
        ],
    )
