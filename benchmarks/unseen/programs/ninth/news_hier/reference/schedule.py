"""Cosine annealing with warm restarts; each cycle is longer and starts lower than the one before."""
import math

from torch.optim.lr_scheduler import LRScheduler


class CosineRestarts(LRScheduler):
    def __init__(self, optimizer, first_cycle, growth, floor, shrink, last_epoch=-1):
        self.first_cycle, self.growth, self.floor, self.shrink = first_cycle, growth, floor, shrink
        super().__init__(optimizer, last_epoch)

    def position(self):
        step, length, cycle = self.last_epoch, self.first_cycle, 0
        while step >= length:
            step -= length
            length *= self.growth
            cycle += 1
        return step / length, cycle

    def get_lr(self):
        phase, cycle = self.position()
        peak = self.shrink**cycle
        factor = self.floor + (peak - self.floor) * 0.5 * (1.0 + math.cos(math.pi * phase))
        return [base * factor for base in self.base_lrs]
