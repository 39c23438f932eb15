import paddle
from paddle.optimizer.lr import LRScheduler

from .config import cfg


class WarmStaircase(LRScheduler):
    def __init__(self, solver):
        self.solver = solver
        super().__init__(learning_rate=solver.base_lr)

    def get_lr(self):
        s, n = self.solver, self.last_epoch
        if n < s.warmup_steps:
            return self.base_lr * (n + 1) / s.warmup_steps
        drops = (n - s.warmup_steps) // s.staircase
        return self.base_lr * s.gamma ** drops


def make_optimizer(model):
    s = cfg.solver
    gru, rest = [], []
    for name, p in model.named_parameters():
        (gru if name.startswith("gru") else rest).append(p)
    groups = [
        {"params": rest, "weight_decay": s.l2},
        {"params": gru, "learning_rate": s.gru_lr_scale, "weight_decay": 0.0},
    ]
    return paddle.optimizer.Momentum(
        learning_rate=WarmStaircase(s), momentum=s.momentum, parameters=groups, use_nesterov=True)
