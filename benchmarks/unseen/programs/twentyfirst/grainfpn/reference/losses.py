import torch
import torch.nn.functional as F


def focal_mask(logit, target, valid, alpha, gamma):
    bce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
    p = torch.sigmoid(logit)
    wrong = target * (1 - p) + (1 - target) * p
    weight = target * alpha + (1 - target) * (1 - alpha)
    return (weight * wrong ** gamma * bce * valid).sum() / valid.sum()


def soft_dice(logit, target, valid, smooth):
    p = torch.sigmoid(logit) * valid
    t = target * valid
    inter = (p * t).sum((1, 2, 3))
    total = (p * p).sum((1, 2, 3)) + (t * t).sum((1, 2, 3))
    return (1 - (2 * inter + smooth) / (total + smooth)).mean()


def centre_focal(logit, heat, pos):
    """Penalty-reduced focal loss of CenterNet, per centre."""
    log_p, log_q = F.logsigmoid(logit), F.logsigmoid(-logit)
    p = torch.sigmoid(logit)
    hit = (1 - p) ** 2 * log_p * pos
    miss = (1 - heat) ** 4 * p ** 2 * log_q * (1 - pos)
    return -(hit + miss).sum() / pos.sum().clamp(min=1)


def size_loss(size, target, pos, beta):
    cell = F.smooth_l1_loss(size, target, reduction="none", beta=beta)
    return (cell * pos).sum() / (2 * pos.sum()).clamp(min=1)


def grain_loss(out, y, cfg):
    parts = {"focal": focal_mask(out["mask"], y["mask"], y["valid"], cfg.alpha, cfg.gamma),
             "dice": soft_dice(out["mask"], y["mask"], y["valid"], cfg.smooth),
             "heat": centre_focal(out["heat"], y["heat"], y["pos"]),
             "size": size_loss(out["size"], y["size"], y["pos"], cfg.beta)}
    parts["loss"] = parts["focal"] + cfg.dice * parts["dice"] + cfg.heat * parts["heat"] + cfg.size * parts["size"]
    return parts
