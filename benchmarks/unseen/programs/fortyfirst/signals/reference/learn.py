"""Loss, optimizer and schedule."""
import torch
import torch.nn.functional as F

from .registry import SCHEDULES


def plan_loss(outputs, target, weights):
    greens, cycle, way = target[:, :-3], target[:, -3], target[:, -2:]
    phase = greens > 0
    wanted = greens / greens.sum(dim=-1, keepdim=True)
    given = outputs["greens"] / outputs["greens"].sum(dim=-1, keepdim=True)
    given = given.masked_fill(~phase, 1.0)
    split = -(wanted * given.log()).sum(dim=-1).mean()
    length = F.smooth_l1_loss(outputs["cycle"].log(), cycle.log(), beta=0.2)
    turn = (1.0 - (outputs["way"] * way).sum(dim=-1)).mean()
    delay = outputs["delay"].mean()
    parts = {"delay": delay, "split": split, "cycle": length, "offset": turn}
    parts["loss"] = sum(weights[k] * v for k, v in list(parts.items()))
    return parts


def groups(model, cfg):
    """Heads learn faster; vectors do not decay."""
    made = {}
    for name, p in model.named_parameters():
        head = name.startswith(("combiner", "timer"))
        decays = p.ndim > 1
        made.setdefault((head, decays), []).append(p)
    return [
        {"params": ps,
         "lr": cfg["lr"] * (cfg["head_factor"] if head else 1.0),
         "weight_decay": cfg["weight_decay"] if decays else 0.0}
        for (head, decays), ps in made.items()
    ]


def optimizer(model, cfg):
    return torch.optim.AdamW(groups(model, cfg), lr=cfg["lr"], betas=tuple(cfg["betas"]), eps=cfg["eps"])


@SCHEDULES.register("warm_poly")
def warm_poly(opt, warm, total, power, floor):
    def factor(step):
        if step < warm:
            return (step + 1) / (warm + 1)
        left = 1.0 - min(step - warm, total - warm) / (total - warm)
        return floor + (1.0 - floor) * left ** power

    return torch.optim.lr_scheduler.LambdaLR(opt, factor)


def clip(params, most):
    """Gradients as a whole are held to a length; a shorter one is left alone."""
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.sqrt(sum((g * g).sum() for g in grads))
    if norm > most:
        for g in grads:
            g.mul_(most / norm)
    return norm
