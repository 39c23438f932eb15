import torch


def build_optimizer(cfg, model):
    groups = {}
    for name, p in model.named_parameters():
        backbone = name.startswith("backbone.")
        decay = p.ndim > 1
        groups.setdefault((backbone, decay), []).append(p)
    s = cfg.solver
    return torch.optim.SGD(
        [
            {
                "params": params,
                "lr": s.lr * (s.backbone_factor if backbone else 1.0),
                "weight_decay": s.weight_decay if decay else 0.0,
            }
            for (backbone, decay), params in groups.items()
        ],
        lr=s.lr,
        momentum=s.momentum,
        nesterov=True,
    )


def build_scheduler(cfg, optimizer):
    s = cfg.solver

    def factor(step):
        if step < s.warmup:
            return s.warmup_factor + (1 - s.warmup_factor) * step / s.warmup
        return s.gamma ** sum(step >= m for m in s.milestones)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
