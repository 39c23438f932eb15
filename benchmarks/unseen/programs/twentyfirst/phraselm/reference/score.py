import math

import torch
import torch.nn.functional as F

from .text import ALPHABET, EOS, PAD

SPACE = ALPHABET.index[" "]


def smoothed(logits, targets, smoothing=0.08, z=2e-4):
    """Cross entropy with smoothed labels and a pull of the partition function to one, over real tokens."""
    ce = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=smoothing)
    real = (targets != PAD).to(logits.dtype)
    log_z = (logits.logsumexp(-1).square() * real).sum() / real.sum()
    return {"loss": ce + z * log_z, "ce": ce, "log_z": log_z}


def report(logits, targets, bins=10):
    real = targets != PAD
    logits, targets = logits[real], targets[real]
    logp = logits.log_softmax(-1)
    conf, guess = logp.exp().max(-1)
    hit = (guess == targets).to(logits.dtype)
    rank = (logp > logp.gather(1, targets[:, None])).sum(-1)
    # calibration: |accuracy - confidence| per bin of confidence, weighted by its share
    where = (conf * bins).long().clamp(max=bins - 1)
    ece = sum(abs(float((hit - conf)[where == b].sum())) for b in range(bins)) / len(hit)
    ends, said = (targets == SPACE) | (targets == EOS), (guess == SPACE) | (guess == EOS)
    tp = (ends & said).sum().item()
    return {"bpc": float(-logp.gather(1, targets[:, None]).mean() / math.log(2)), "top1": float(hit.mean()),
            "top3": float((rank < 3).double().mean()), "ece": ece,
            "word_end_f1": 2 * tp / max(ends.sum().item() + said.sum().item(), 1)}
