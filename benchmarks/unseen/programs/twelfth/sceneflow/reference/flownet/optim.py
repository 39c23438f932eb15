import torch

from .config import CONFIG


def split_parameters(model):
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.dim() == 1 else decay).append(p)
    return decay, plain


def make_optimizer(model, cfg=CONFIG.train):
    decay, plain = split_parameters(model)
    return torch.optim.Adam(
        [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=cfg.lr, betas=(0.9, 0.99), eps=1e-6,
    )


def make_schedule(optimizer, cfg=CONFIG.train):
    """Steps down every `decay_steps`, never below the floor."""
    def factor(step):
        return max(cfg.decay_rate ** (step // cfg.decay_steps), cfg.lr_floor / cfg.lr)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
