import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


def layer_id(name, depth):
    if name in ("cls_token",) or name.startswith("patch_embed"):
        return 0
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return depth + 1


def parameter_groups(model, cfg, depth):
    groups = {}
    for name, param in model.named_parameters():
        layer = layer_id(name, depth)
        decay = 0.0 if param.ndim == 1 or name.endswith("token") else cfg.weight_decay
        key = (layer, decay)
        if key not in groups:
            scale = cfg.layer_decay ** (depth + 1 - layer)
            groups[key] = {"params": [], "lr": cfg.lr * scale, "weight_decay": decay}
        groups[key]["params"].append(param)
    return list(groups.values())


def adamw(model, cfg, depth):
    return torch.optim.AdamW(
        parameter_groups(model, cfg, depth), lr=cfg.lr, betas=cfg.betas
    )


def warmup_cosine(optimizer, cfg):
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=cfg.warmup)
    cosine = CosineAnnealingLR(optimizer, T_max=cfg.decay_steps)
    return SequentialLR(optimizer, [warm, cosine], milestones=[cfg.warmup])
