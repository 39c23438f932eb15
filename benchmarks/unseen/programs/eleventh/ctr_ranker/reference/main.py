import json
import os

import torch

from evaluate import report
from features import Impressions, loader
from net import Ranker
from objective import total_loss

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json")) as handle:
    CFG = json.load(handle)


def build_model():
    return Ranker(CFG["model"], CFG["data"]["buckets"])


def build_dataset(split):
    return Impressions(CFG["data"], split)


def build_dataloader(split):
    return loader(CFG["data"], split)


def metric(outputs, labels):
    return report(outputs, labels)


def loss(outputs, labels):
    return total_loss(outputs, labels, CFG["loss"])


def build_optimizer(model):
    cfg = CFG["optim"]
    tables, decayed, plain = [], [], []
    for name, parameter in model.named_parameters():
        if name.startswith(("embed.", "linear.")):
            tables.append(parameter)
        elif parameter.ndim > 1:
            decayed.append(parameter)
        else:
            plain.append(parameter)
    return torch.optim.AdamW(
        [
            {"params": tables, "lr": cfg["lr"] * cfg["embedding_lr_mult"], "weight_decay": 0.0},
            {"params": decayed, "weight_decay": cfg["weight_decay"]},
            {"params": plain, "weight_decay": 0.0},
        ],
        lr=cfg["lr"],
        betas=tuple(cfg["betas"]),
        eps=cfg["eps"],
    )


def build_scheduler(optimizer):
    cfg = CFG["schedule"]

    def factor(step):
        if step < cfg["warmup"]:
            return cfg["start"] + (1 - cfg["start"]) * step / cfg["warmup"]
        passed = sum(step - cfg["warmup"] >= m for m in cfg["milestones"])
        return cfg["gamma"] ** passed

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
