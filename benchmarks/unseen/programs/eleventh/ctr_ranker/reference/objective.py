"""Weighted log loss, softmax over the batch's items, BPR inside a session."""
import torch
import torch.nn.functional as F


def click_loss(logit, click, pos_weight):
    return F.binary_cross_entropy_with_logits(logit, click, pos_weight=logit.new_tensor(pos_weight))


def batch_softmax(user, item, labels, temperature):
    score = user @ item.t() / temperature - labels["logq"].to(user.dtype)
    same = labels["item"][:, None] == labels["item"][None, :]
    same = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
    score = score.masked_fill(same, -1e4)
    each = F.cross_entropy(score, torch.arange(len(score), device=score.device), reduction="none")
    click = labels["click"].to(user.dtype)
    return (each * click).sum() / click.sum().clamp(min=1.0)


def bpr(logit, labels):
    click = labels["click"]
    pair = (labels["session"][:, None] == labels["session"][None, :]) & (click[:, None] > click[None, :])
    pair = pair.to(logit.dtype)
    gap = logit[:, None] - logit[None, :]
    return -(F.logsigmoid(gap) * pair).sum() / pair.sum().clamp(min=1.0)


def total_loss(outputs, labels, cfg):
    logit = outputs["logit"]
    parts = {
        "click": click_loss(logit, labels["click"].to(logit.dtype), cfg["pos_weight"]),
        "softmax": batch_softmax(outputs["user"], outputs["item"], labels, cfg["temperature"]),
        "bpr": bpr(logit, labels),
        "l2": outputs["norm"].mean(),
    }
    parts["loss"] = parts["click"] + cfg["softmax"] * parts["softmax"] + cfg["bpr"] * parts["bpr"] + cfg["l2"] * parts["l2"]
    return parts
