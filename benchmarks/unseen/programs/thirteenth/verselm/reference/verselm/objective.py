import math

import torch
from torch.nn import functional as F

from .tokenizer import PAD


def language_loss(cfg, logits, targets):
    nll = F.cross_entropy(
        logits.transpose(1, 2), targets, ignore_index=PAD, label_smoothing=cfg.train.smoothing
    )
    valid = targets != PAD
    z = torch.logsumexp(logits, -1)[valid].pow(2).mean()
    return nll + cfg.train.z_loss * z


@torch.no_grad()
def scores(logits, targets):
    valid = targets != PAD
    logits, targets = logits[valid], targets[valid]
    nll = F.cross_entropy(logits, targets).item()
    top = logits.topk(5, -1).indices
    hit = top == targets[:, None]
    rank = (logits > logits.gather(1, targets[:, None])).sum(1) + 1
    return {
        "perplexity": math.exp(nll),
        "bits": nll / math.log(2),
        "accuracy": hit[:, 0].double().mean().item(),
        "top5": hit.any(1).double().mean().item(),
        "mrr": (1.0 / rank.double()).mean().item(),
    }
