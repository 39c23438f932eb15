from torch.optim.lr_scheduler import LRScheduler


def param_groups(model, lr, weight_decay, head_mult):
    decay, plain, head = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head."):
            head.append(p)
        elif p.ndim <= 1:
            plain.append(p)
        else:
            decay.append(p)
    return [
        {"params": decay, "lr": lr, "weight_decay": weight_decay},
        {"params": plain, "lr": lr, "weight_decay": 0.0},
        {"params": head, "lr": lr * head_mult, "weight_decay": weight_decay},
    ]


class WarmupPolyLR(LRScheduler):
    def __init__(self, optimizer, warmup, total, power, end_ratio, last_epoch=-1):
        self.warmup, self.total = warmup, total
        self.power, self.end_ratio = power, end_ratio
        super().__init__(optimizer, last_epoch)

    def factor(self, step):
        if step < self.warmup:
            return (step + 1) / self.warmup
        left = 1.0 - min(step - self.warmup, self.total - self.warmup) / (self.total - self.warmup)
        return self.end_ratio + (1.0 - self.end_ratio) * left ** self.power

    def get_lr(self):
        f = self.factor(self.last_epoch)
        return [base * f for base in self.base_lrs]
