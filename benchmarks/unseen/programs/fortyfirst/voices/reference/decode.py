"""From chances to voices, and how good they are."""
import torch

from .windows import IGNORE


def best(outputs):
    chance = outputs["logp"].masked_fill(outputs["open"] == 0, -torch.inf)
    return chance.argmax(dim=-1)


def quality(outputs, target):
    guess, real = best(outputs), target != IGNORE
    said, true = (guess > 0) & real, (target > 0) & real
    kind = outputs["logp"].dtype
    hit = (said & (guess == target)).sum().to(kind)
    precision = hit / said.sum().clamp(min=1)
    recall = hit / true.sum().clamp(min=1)
    return {"right": ((guess == target) & real).sum().to(kind) / real.sum(),
            "f1": 2 * precision * recall / (precision + recall).clamp(min=1e-6)}


def voices(logp, open_, count):
    """Notes from left to right take the likeliest note before that nobody has taken yet."""
    taken, voice, fresh = set(), [], 0
    for i in range(count):
        order = sorted((k for k in range(count + 1) if open_[i, k] > 0), key=lambda k: -float(logp[i, k]))
        pick = next(k for k in order if k == 0 or k not in taken)
        if pick == 0:
            voice.append(fresh)
            fresh += 1
        else:
            taken.add(pick)
            voice.append(voice[pick - 1])
    return voice
