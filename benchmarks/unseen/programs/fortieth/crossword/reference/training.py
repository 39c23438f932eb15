import math

import torch
import torch.nn.functional as F

from .registry import LOSSES, OPTIMIZERS, SCHEDULES

VOWELS = [ord(c) - ord("A") for c in "AEIOU"]


@LOSSES.register
class FillLoss:
    def __init__(self, smoothing, vowel_weight, hard_weight, beta):
        self.smoothing = smoothing
        self.vowel_weight = vowel_weight
        self.hard_weight = hard_weight
        self.beta = beta

    def __call__(self, outputs, labels):
        logits = outputs["letters"]
        weight = torch.ones(logits.shape[-1], dtype=logits.dtype, device=logits.device)
        weight[VOWELS] = self.vowel_weight
        fill = F.cross_entropy(logits.flatten(0, 1), labels["letters"].flatten(), weight=weight,
                               ignore_index=-100, label_smoothing=self.smoothing)
        hard = F.smooth_l1_loss(outputs["hard"], labels["hard"], beta=self.beta)
        return fill + self.hard_weight * hard


@OPTIMIZERS.register
def AdamW(model, lr, embedding_lr, betas, eps, weight_decay, clip):
    tables, plain, rest = [], [], []
    for name, p in model.named_parameters():
        if name.split(".")[0] in ("words", "letters", "from_start", "from_end"):
            tables.append(p)
        elif p.ndim < 2:
            plain.append(p)
        else:
            rest.append(p)
    groups = [{"params": tables, "lr": embedding_lr, "weight_decay": 0.0},
              {"params": plain, "weight_decay": 0.0},
              {"params": rest, "weight_decay": weight_decay}]
    return torch.optim.AdamW(groups, lr=lr, betas=tuple(betas), eps=eps)


@SCHEDULES.register
def WarmCosine(optimizer, warmup, total, floor):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / (total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
