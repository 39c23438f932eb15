import math

import torch


def split_parameters(model):
    tables, rest = [], []
    for name, param in model.named_parameters():
        if name.endswith("emb.weight"):
            tables.append(param)
        else:
            rest.append(param)
    return tables, rest


def make_optimizer(model, cfg):
    tables, rest = split_parameters(model)
    return torch.optim.Adam(
        [
            {"params": rest},
            {"params": tables, "lr": cfg.lr * cfg.embedding_lr_scale},
        ],
        lr=cfg.lr,
        betas=tuple(cfg.betas),
    )


def cosine_factor(step, cfg):
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    progress = min(1.0, (step - cfg.warmup) / (cfg.total - cfg.warmup))
    return cfg.floor + (1.0 - cfg.floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def make_scheduler(optimizer, cfg):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: cosine_factor(s, cfg))


@torch.no_grad()
def lazy_decay(table, used, amount):
    rows = torch.unique(used)
    rows = rows[rows != 0]
    table[rows] = table[rows] * (1.0 - amount)


def train_step(model, optimizer, batch, criterion, cfg):
    model.train()
    seq, labels = batch
    optimizer.zero_grad()
    loss = criterion(model(seq), labels)
    loss.backward()
    optimizer.step()
    used = torch.cat(
        [seq.flatten(), labels["target"].flatten(), labels["negatives"].flatten()]
    )
    lr = optimizer.param_groups[1]["lr"]
    lazy_decay(model.item_emb.weight, used, lr * cfg.weight_decay)
    return loss.item()
