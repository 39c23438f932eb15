import math

import torch
import torch.nn.functional as F

from .text import IGNORE

LR, FLOOR, WARMUP, TOTAL = 4e-3, 0.1, 8, 110
DECAY, CLIP, SMOOTH, Z = 0.2, 0.5, 0.1, 1e-2


def loss(outputs, labels):
    flat, aim = outputs.flatten(0, 1), labels.flatten()
    ce = F.cross_entropy(flat, aim, ignore_index=IGNORE, label_smoothing=SMOOTH)
    z = torch.logsumexp(flat, -1)[aim != IGNORE].square().mean()
    return {"loss": ce + Z * z, "ce": ce, "z": z}


def metric(outputs, labels):
    known = labels != IGNORE
    logp = outputs.double().log_softmax(-1)
    picked = logp.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    count = known.sum().clamp(min=1)
    hit = outputs.argmax(-1) == labels
    return {
        "perplexity": torch.exp(-(picked * known).sum() / count).item(),
        "accuracy": ((hit & known).sum() / count).item(),
        "rows": (hit | ~known).all(-1).double().mean().item(),
    }


class ClippedAdamW(torch.optim.AdamW):
    """AdamW that scales all gradients down to a common norm first."""

    @torch.no_grad()
    def step(self, closure=None):
        grads = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
        for g in grads:
            g.mul_(CLIP / norm.clamp(min=CLIP))
        return super().step(closure)


def build_optimizer(model):
    matrices, embedding, scales = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("embed"):
            embedding.append(p)
        elif p.ndim < 2:
            scales.append(p)
        else:
            matrices.append(p)
    groups = [
        {"params": matrices, "weight_decay": DECAY},
        {"params": scales, "weight_decay": 0.0},
        {"params": embedding, "weight_decay": 0.0, "lr": 0.5 * LR},
    ]
    return ClippedAdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)


def build_scheduler(optimizer):
    def share(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        if step >= TOTAL:
            return FLOOR
        done = (step - WARMUP) / (TOTAL - WARMUP)
        return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, share)
