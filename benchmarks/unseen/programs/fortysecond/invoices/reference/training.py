import math

import torch

from .registry import OPTIMIZERS, SCHEDULES


def depth_of(name, layers):
    """0 for the embeddings, then the layers, then what is on top."""
    if name.startswith("embedding.") or name.startswith(("encoder.across", "encoder.along")):
        return 0
    if name.startswith("encoder.layers."):
        return 1 + int(name.split(".")[2])
    return layers + 1


@OPTIMIZERS.register
def layerwise_adamw(model, lr, layer_decay, weight_decay, betas, eps):
    layers = len(model.encoder.layers)
    groups = {}
    for name, p in model.named_parameters():
        depth, decayed = depth_of(name, layers), p.ndim > 1 and "norm" not in name
        key = (depth, decayed)
        if key not in groups:
            groups[key] = {"params": [], "lr": lr * layer_decay ** (layers + 1 - depth),
                           "weight_decay": weight_decay if decayed else 0.0}
        groups[key]["params"].append(p)
    ordered = [groups[k] for k in sorted(groups, reverse=True)]
    return torch.optim.AdamW(ordered, lr=lr, betas=tuple(betas), eps=eps)


@SCHEDULES.register
def warmup_cosine(optimizer, warmup, total, floor):
    def factor(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        done = min(1.0, (step - warmup) / (total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
