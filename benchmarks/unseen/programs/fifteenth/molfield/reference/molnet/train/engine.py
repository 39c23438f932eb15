import weakref

import torch

from .ema import SwitchEma
from .objectives import field_loss

AVERAGES = weakref.WeakKeyDictionary()


def make_optimizer(model, cfg):
    decay, plain, tables = [], [], []
    for name, p in model.named_parameters():
        if "embedding" in name or "atom_ref" in name:
            tables.append(p)
        elif p.ndim > 1:
            decay.append(p)
        else:
            plain.append(p)
    return torch.optim.SGD(
        [
            {"params": decay, "weight_decay": cfg.weight_decay},
            {"params": plain},
            {"params": tables, "lr": cfg.lr * cfg.embedding_lr},
        ],
        lr=cfg.lr,
        momentum=cfg.momentum,
        nesterov=True,
    )


def make_scheduler(optimizer, cfg):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=cfg.gamma)


def train_step(model, optimizer, batch, cfg):
    if model not in AVERAGES:
        AVERAGES[model] = SwitchEma(model, cfg.ema)
    model.train()
    graph, labels = batch
    loss = field_loss(model(graph), labels, cfg.loss)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.optim.clip)
    optimizer.step()
    AVERAGES[model].update(model)
    return {"loss": loss.item()}
