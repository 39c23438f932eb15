import math

import torch

from .config import load
from .modules.crf import log_partition, path_score

CFG = load().train


def nll(scores, labels):
    """Negative log-likelihood of the paths, a token."""
    mask = labels >= 0
    return (log_partition(scores, mask) - path_score(scores, labels, mask)).sum() / mask.sum()


def optimizer(model, cfg=CFG):
    decay, rest = [], []
    for name, p in model.named_parameters():
        light = name.endswith("bias") or "bias_" in name or "norm" in name or "words" in name or "embed" in name
        (rest if light or p.ndim < 2 else decay).append(p)
    groups = [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=cfg.peak_lr, betas=tuple(cfg.betas), eps=cfg.eps)


def schedule(opt, cfg=CFG):
    def factor(step):
        step += 1
        return step / cfg.warmup if step < cfg.warmup else math.sqrt(cfg.warmup / step)

    return torch.optim.lr_scheduler.LambdaLR(opt, factor)


def clip_(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
    if norm > limit:
        for g in grads:
            g.mul_(limit / (norm + 1e-6))
    return norm


def train_step(model, opt, batch, cfg=CFG):
    model.train()
    opt.zero_grad()
    loss = nll(model(batch["words"], batch["chars"]), batch["labels"])
    loss.backward()
    norm = clip_(model.parameters(), cfg.max_norm)
    opt.step()
    return {"loss": loss.detach(), "grad_norm": norm}
