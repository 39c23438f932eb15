from torch.optim.lr_scheduler import LambdaLR


def depth_of(name, layers):
    """0 for embeddings, then the blocks, the heads and the last norm on top."""
    if name.startswith("embed_"):
        return 0
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return layers + 1


def layerwise_groups(model, o):
    groups = {}
    for name, p in model.named_parameters():
        depth = depth_of(name, model.layers)
        decays = p.ndim > 1 and "embed_time" not in name
        key = depth, decays
        if key not in groups:
            scale = o.layer_decay ** (model.layers + 1 - depth)
            groups[key] = {"params": [], "lr": o.lr * scale, "weight_decay": o.weight_decay if decays else 0.0}
        groups[key]["params"].append(p)
    return list(groups.values())


def polynomial_schedule(optimizer, s):
    def factor(step):
        if step < s.warmup:
            return (step + 1) / s.warmup
        left = 1 - min(1.0, (step - s.warmup) / (s.total - s.warmup))
        return s.end_factor + (1 - s.end_factor) * left**s.power

    return LambdaLR(optimizer, factor)
