"""Freight matching: which free truck carries which load. Built from config.json by registries."""
import json
import os

import torch
from scipy.optimize import linear_sum_assignment

from . import parts  # noqa: F401  (fills the registries)
from .days import PADDING, UNMATCHED, collate, make_loader, make_set
from .registry import LOSSES, MODELS, OPTIMIZERS, SCHEDULES

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json")) as handle:
    CONFIG = json.load(handle)


@LOSSES.register("two_sided_nll")
def two_sided_nll(outputs, labels, bin_weight, truck_weight):
    """Every load names its truck or the bin; every truck that nobody named should be idle."""
    batch, rows, columns = outputs.shape
    present = labels != PADDING
    matched = present & (labels != UNMATCHED)
    target = torch.where(matched, labels, torch.full_like(labels, rows - 1))
    logs = outputs[:, :, :-1].gather(1, target.unsqueeze(1)).squeeze(1)
    weights = torch.where(matched, torch.ones_like(logs), torch.full_like(logs, bin_weight))
    weights = weights * present
    load_part = -(weights * logs).sum() / weights.sum()

    named = torch.zeros(batch, rows, dtype=torch.bool, device=labels.device)
    named.scatter_(1, target, True)
    real = outputs[:, :-1, :].amax(dim=2) > -29.0
    idle = real & ~named[:, :-1]
    truck_part = -(outputs[:, :-1, -1] * idle).sum() / idle.sum().clamp(min=1)
    return load_part + truck_weight * truck_part


@OPTIMIZERS.register("adamw")
def adamw(model, lr, betas, eps, weight_decay, clip):
    decayed, free = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim > 1 else free).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=tuple(betas), eps=eps)


@SCHEDULES.register("warmup_rsqrt")
def warmup_rsqrt(optimizer, warmup, floor):
    def factor(step):
        step += 1
        if step <= warmup:
            return step / warmup
        return max(floor, (warmup / step) ** 0.5)

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def build_model():
    return MODELS.build(CONFIG["model"], kinds=len(CONFIG["data"]["kinds"]))


def build_dataset(split):
    return make_set(CONFIG["data"], split)


def build_dataloader(split):
    return make_loader(CONFIG["data"], split)


def build_optimizer(model):
    return OPTIMIZERS.build(CONFIG["optimizer"], model)


def build_scheduler(optimizer):
    return SCHEDULES.build(CONFIG["schedule"], optimizer)


def loss(outputs, labels):
    return LOSSES.build(CONFIG["loss"], outputs, labels)


def metric(outputs, labels):
    plan = outputs.exp()
    matched = labels >= 0
    best = plan[:, :, :-1].argmax(dim=1)
    hit = ((best == labels) & matched).sum() / matched.sum().clamp(min=1)
    left = labels == UNMATCHED
    bins = ((best == plan.shape[1] - 1) & left).sum() / left.sum().clamp(min=1)
    idle = plan[:, :-1, -1].sum(dim=1).mean()
    return {"hit": hit, "left_over": bins, "idle_trucks": idle}


def train_step(model, optimizer, batch):
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    optimizer.zero_grad()
    value = loss(model(**inputs), batch["labels"])
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CONFIG["optimizer"]["clip"])
    optimizer.step()
    return value.detach()


@torch.no_grad()
def predict(path, model):
    """A carrier for every load of one day: the best assignment as a whole, a load may stay in the bin."""
    batch = collate([make_set(CONFIG["data"], path=path)[0]])
    batch.pop("labels")
    kind = next(model.parameters()).dtype
    batch = {key: value.to(kind) if value.is_floating_point() else value for key, value in batch.items()}
    plan = model(**batch)[0].double()
    trucks, loads = plan.shape[0] - 1, plan.shape[1] - 1
    gain = plan[:-1, :-1] - plan[-1:, :-1] - plan[:-1, -1:]
    rows, columns = linear_sum_assignment(gain.clamp(min=0.0).numpy(), maximize=True)
    carrier = torch.full((loads,), UNMATCHED)
    for row, column in zip(rows, columns):
        if gain[row, column] > 0:
            carrier[column] = int(row)
    sure = plan[:, :-1].exp().amax(dim=0)
    return {"carrier": carrier.numpy(), "sure": sure.numpy()}
