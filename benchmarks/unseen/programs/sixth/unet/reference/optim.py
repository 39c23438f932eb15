import torch


def split_params(model):
    """No weight decay on norms and biases."""
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        (no_decay if p.ndim == 1 else decay).append(p)
    return decay, no_decay


def make_optimizer(model, cfg):
    decay, no_decay = split_params(model)
    groups = [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=cfg.lr, momentum=cfg.momentum, nesterov=True)


def warmup_poly(cfg):
    def factor(step):
        if step < cfg.warmup_steps:
            return cfg.warmup_factor + (1 - cfg.warmup_factor) * step / cfg.warmup_steps
        done = min(step - cfg.warmup_steps, cfg.max_steps - cfg.warmup_steps)
        return (1 - done / (cfg.max_steps - cfg.warmup_steps)) ** cfg.power

    return factor


def make_scheduler(optimizer, cfg):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_poly(cfg))
