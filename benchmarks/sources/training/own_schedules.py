"""Schedules of a program's own, derived from PyTorch's class: each function gives rates, step by step."""

import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import _LRScheduler, LRScheduler


class Warm(_LRScheduler):
    def __init__(self, optimizer, warm, gamma=0.9, last_epoch=-1):
        self.warm = warm
        self.gamma = gamma
        super(Warm, self).__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch < self.warm:
            return [base * (self.last_epoch + 1) / self.warm for base in self.base_lrs]
        return [group["lr"] * self.gamma for group in self.optimizer.param_groups]


class Closed(lr_scheduler.LRScheduler):
    def __init__(self, optimizer, k):
        self.k = k
        super().__init__(optimizer)

    def get_lr(self):
        return self._get_closed_form_lr()

    def _get_closed_form_lr(self):
        return [base / (1 + self.k * self.last_epoch) for base in self.base_lrs]

    def step(self, epoch=None):
        super().step(epoch)
        self.seen = self._step_count


def _made(groups=False):
    a, b = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
    params = [{"params": a.parameters()}, {"params": b.parameters(), "lr": 0.05}] if groups else list(a.parameters())
    return torch.optim.SGD(params, lr=0.2, momentum=0.9)


def _walk(optimizer, schedule, n=8):
    out = []
    for _ in range(n):
        out.append([g["lr"] for g in optimizer.param_groups] + list(schedule.get_last_lr()))
        optimizer.step()
        schedule.step()
    return out


def own_warm():
    o = _made()
    return _walk(o, Warm(o, 3))


def own_groups():
    o = _made(True)
    return _walk(o, Warm(o, 3))


def own_closed():
    o = _made(True)
    s = Closed(o, 0.5)
    out = _walk(o, s)
    s.step(3)
    return out + [s.get_last_lr(), s.seen, s.last_epoch, isinstance(s, LRScheduler)]


def own_state():
    o = _made()
    s = Warm(o, 3)
    _walk(o, s, 5)
    state = s.state_dict()
    o2 = _made()
    s2 = Warm(o2, 3)
    s2.load_state_dict(state)
    s2.step()
    return [s2.last_epoch, state["last_epoch"], state["warm"], [g["initial_lr"] for g in o.param_groups]]


def own_after_paddles():
    o = _made()
    lr_scheduler.StepLR(o, 2)
    s = Warm(o, 3)
    return _walk(o, s)


def own_before():
    o = _made()
    Warm(o, 3)
    s = lr_scheduler.StepLR(o, 2)
    return _walk(o, s)


def own_twice():
    o = _made()
    Warm(o, 3)
    s = Closed(o, 0.25)
    return _walk(o, s)
