from paddle import optimizer as optim

from .registry import SCHEDULES


@SCHEDULES.register()
class WarmupPoly(optim.lr.LRScheduler):
    def __init__(self, learning_rate, warmup, total, power, floor):
        self.warmup, self.total, self.power, self.floor = warmup, total, power, floor
        super().__init__(learning_rate)

    def get_lr(self):
        step = self.last_epoch
        if step < self.warmup:
            return self.base_lr * (step + 1) / self.warmup
        length = self.total - self.warmup
        done = min(step - self.warmup, length) / length
        return self.base_lr * (self.floor + (1 - self.floor) * (1 - done) ** self.power)


def adamw(model, schedule, lr, weight_decay, betas, eps, clip):
    """Kernels decay; biases and what norms scale by do not."""
    decay = {p.name for p in model.parameters() if p.ndim > 1}
    return optim.AdamW(
        learning_rate=SCHEDULES.build(schedule, lr),
        beta1=betas[0],
        beta2=betas[1],
        epsilon=eps,
        parameters=model.parameters(),
        weight_decay=weight_decay,
        apply_decay_param_fun=lambda name: name in decay,
    )
