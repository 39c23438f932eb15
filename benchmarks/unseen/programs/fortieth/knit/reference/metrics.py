import torch

from .stitches import ADDS, NAMES, NONE


def knit_metric(outputs, target):
    logits, net = outputs
    guess = logits.argmax(-1)
    there = target != NONE
    recalls = []
    for code in range(1, len(NAMES)):
        those = target == code
        if those.any():
            recalls.append((guess[those] == code).to(logits.dtype).mean())
    rows = ((guess == target) | ~there).all(1)
    adds = torch.tensor(ADDS, device=target.device)
    balance = (adds[guess].sum(1) - adds[target].sum(1)).abs().to(logits.dtype)
    logp = logits.log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return {
        "stitches": (guess == target)[there].to(logits.dtype).mean(),
        "recall": torch.stack(recalls).mean(),
        "rows": rows.to(logits.dtype).mean(),
        "balance": balance.mean(),
        "perplexity": torch.exp(-logp[there].mean()),
    }
