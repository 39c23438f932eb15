import paddle
from paddle.nn import functional as F
from paddle.nn.utils import clip_grad_norm_
from paddle.optimizer import Momentum
from paddle.optimizer.lr import LRScheduler

from .settings import S


def smoothed_nll(logits, target):
    cfg = S.training
    k = logits.shape[-1]
    soft = F.one_hot(target, k).astype(logits.dtype) * (1.0 - cfg.smoothing) + cfg.smoothing / k
    each = -(soft * F.log_softmax(logits, axis=-1)).sum(axis=-1)
    weight = paddle.to_tensor(cfg.weights, dtype=logits.dtype)[target]
    return (each * weight).sum() / weight.sum()


def ramp_poly(step, warmup, steps, power, final):
    if step < warmup:
        return (step + 1) / warmup
    done = min((step - warmup) / (steps - warmup), 1.0)
    return final + (1.0 - final) * (1.0 - done) ** power


class RampPoly(LRScheduler):
    def __init__(self, rate, cfg):
        self.cfg = cfg
        super().__init__(learning_rate=rate)

    def get_lr(self):
        c = self.cfg
        return self.base_lr * ramp_poly(self.last_epoch, c.warmup, c.steps, c.power, c.final)


def attach_schedule(optimizer):
    schedule = RampPoly(S.training.rate, S.training)
    optimizer.set_lr_scheduler(schedule)
    return schedule


def momentum_sgd(model):
    cfg = S.training
    head = list(model.classifier.parameters())
    taken = {id(p) for p in head}
    body = [p for p in model.parameters() if id(p) not in taken]
    groups = [
        {"params": head, "learning_rate": cfg.head_scale, "weight_decay": cfg.decay},
        {"params": [p for p in body if len(p.shape) > 1], "weight_decay": cfg.decay},
        {"params": [p for p in body if len(p.shape) == 1], "weight_decay": 0.0},
    ]
    return Momentum(learning_rate=cfg.rate, momentum=cfg.momentum, parameters=groups, use_nesterov=True)


def update(model, optimizer, batch):
    feats, target = batch
    model.train()
    value = smoothed_nll(model(feats), target)
    value.backward()
    clip_grad_norm_(model.parameters(), S.training.max_norm)
    optimizer.step()
    optimizer.clear_grad()
    return float(value)
