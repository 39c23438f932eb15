import math

import torch
import torch.nn.functional as F

from .data import IGNORE


def lm_loss(logits, targets, z_weight):
    """Cross entropy plus the z-loss of PaLM over the positions that count."""
    logits, targets = logits.flatten(0, 1), targets.flatten()
    ce = F.cross_entropy(logits, targets, ignore_index=IGNORE)
    keep = targets != IGNORE
    z = torch.logsumexp(logits[keep], dim=-1)
    return ce + z_weight * z.pow(2).mean()


@torch.no_grad()
def lm_metric(logits, targets):
    keep = targets != IGNORE
    logp = F.log_softmax(logits[keep], dim=-1)
    nll = -logp.gather(1, targets[keep][:, None]).mean()
    top5 = logits[keep].topk(5, dim=-1).indices.eq(targets[keep][:, None]).any(-1)
    return {
        "perplexity": nll.exp(),
        "bits_per_byte": nll / math.log(2),
        "accuracy": (logits[keep].argmax(-1) == targets[keep]).to(logits.dtype).mean(),
        "top5": top5.to(logits.dtype).mean(),
    }


def configure_optimizer(model, args):
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": args.weight_decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=args.betas, eps=args.eps)


def lr_factor(step, args):
    if step < args.warmup:
        return (step + 1) / args.warmup
    t = min(1.0, (step - args.warmup) / (args.total_steps - args.warmup))
    return args.min_lr_ratio + 0.5 * (1 - args.min_lr_ratio) * (1 + math.cos(math.pi * t))


def configure_scheduler(optimizer, args):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_factor(step, args))
