import math

import paddle
from paddle.optimizer.lr import LRScheduler


class CosineAnnealingRestartLR(LRScheduler):
    def __init__(self, learning_rate, periods, restart_weights, eta_min):
        self.periods = list(periods)
        self.restart_weights = list(restart_weights)
        self.eta_min = eta_min
        self.milestones = [sum(self.periods[:i + 1]) for i in range(len(self.periods))]
        super().__init__(learning_rate)

    def get_lr(self):
        cycle = sum(self.last_epoch >= m for m in self.milestones)
        cycle = min(cycle, len(self.periods) - 1)
        begin = self.milestones[cycle] - self.periods[cycle]
        t = min(self.last_epoch - begin, self.periods[cycle]) / self.periods[cycle]
        half = 0.5 * (self.base_lr - self.eta_min)
        return self.eta_min + self.restart_weights[cycle] * half * (1.0 + math.cos(math.pi * t))


def adam(model):
    schedule = CosineAnnealingRestartLR(2e-3, (60, 60, 120), (1.0, 0.5, 0.5), eta_min=1e-5)
    return paddle.optimizer.Adam(schedule, beta1=0.9, beta2=0.99, parameters=model.net.parameters())


class Stepper:
    def __init__(self, criterion, accumulate=2, max_norm=0.25, ema=0.99):
        self.criterion = criterion
        self.accumulate = accumulate
        self.max_norm = max_norm
        self.ema = ema

    def backward(self, model, low, target):
        total = 0.0
        for x, y in zip(paddle.chunk(low, self.accumulate), paddle.chunk(target, self.accumulate)):
            loss = self.criterion(model(x), y)["loss"] / self.accumulate
            loss.backward()
            total += loss.detach()
        return total

    def __call__(self, model, optimizer, batch):
        low, target = batch
        total = self.backward(model, low, target)
        norm = paddle.nn.utils.clip_grad_norm_(model.net.parameters(), self.max_norm)
        optimizer.step()
        optimizer.clear_grad()
        decay = model.ema_update(self.ema)
        return {"loss": total, "norm": norm, "decay": decay}
