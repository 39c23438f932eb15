import math

from torch.optim.lr_scheduler import LRScheduler


class CosineRestarts(LRScheduler):
    """A linear warmup, then cosines whose length grows and whose peak falls from cycle to cycle."""

    def __init__(self, optimizer, s):
        self.s = s
        super().__init__(optimizer)

    def cycle(self, step):
        """Number of the cycle, place in it and its length."""
        number, length = 0, self.s.first_cycle
        while step >= length:
            step -= length
            length *= self.s.multiplier
            number += 1
        return number, step, length

    def get_lr(self):
        s, step = self.s, self.last_epoch
        if step < s.warmup:
            return [base * (step + 1) / (s.warmup + 1) for base in self.base_lrs]
        number, place, length = self.cycle(step - s.warmup)
        cosine = (1 + math.cos(math.pi * place / length)) / 2
        rates = []
        for base in self.base_lrs:
            low, peak = s.min_lr * base / self.base_lrs[0], base * s.peak_decay**number
            rates.append(low + (peak - low) * cosine)
        return rates
