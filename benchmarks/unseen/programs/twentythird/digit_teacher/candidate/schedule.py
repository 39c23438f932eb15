import math

import paddle

BASE_LR = 0.08
WARMUP = 2
EPOCHS = 8


class WarmCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, floor=0.05):
        self.peak = peak
        self.floor = floor
        super().__init__(learning_rate=peak)

    def get_lr(self):
        e = self.last_epoch
        if e < WARMUP:
            return self.peak * (e + 1) / (WARMUP + 1)
        t = min((e - WARMUP) / (EPOCHS - WARMUP), 1.0)
        return self.peak * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * t)))


def is_decayed(name, p):
    return len(p.shape) > 1 and name != "proto"


def build_optimizer(model):
    named = list(model.student.named_parameters())
    decay = [p for n, p in named if is_decayed(n, p)]
    plain = [p for n, p in named if not is_decayed(n, p)]
    return paddle.optimizer.Momentum(
        learning_rate=WarmCosine(BASE_LR),
        momentum=0.9,
        use_nesterov=True,
        parameters=[
            {"params": decay, "weight_decay": 5e-3},
            {"params": plain, "weight_decay": 0.0},
        ],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate
