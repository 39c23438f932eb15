"""The loss and the scores."""
import numpy as np
import torch
import torch.nn.functional as F


def soft_focal(logits, share, voters, gamma):
    logp = F.log_softmax(logits, dim=-1)
    cross = -(share * logp).sum(-1)
    with torch.no_grad():
        ease = (share * logp.exp()).sum(-1)
        weight = (1 - ease) ** gamma * voters.sqrt()
    return (weight * cross).sum() / voters.sqrt().sum()


def attention_entropy(attention, mask):
    entropy = -(attention * torch.log(attention + 1e-8)).sum(-1)
    per_pair = (entropy * mask).sum(1) / mask.sum(1)
    return per_pair.mean()


def make_loss(cfg):
    def loss(outputs, labels):
        focal = soft_focal(outputs["logits"], labels["share"], labels["voters"], cfg["gamma"])
        entropy = attention_entropy(outputs["attention"], outputs["mask"])
        return {"loss": focal + cfg["spread"] * entropy, "focal": focal, "entropy": entropy}
    return loss


def macro_f1(guess, truth):
    scores = []
    for c in range(3):
        hit = ((guess == c) & (truth == c)).sum()
        wrong = ((guess == c) & (truth != c)).sum()
        missed = ((guess != c) & (truth == c)).sum()
        whole = 2 * hit + wrong + missed
        scores.append(2 * hit / whole if whole else 0.0)
    return float(np.mean(scores))


def kappa(guess, truth):
    """Linearly weighted agreement: 'open' lies between the two others."""
    n = len(guess)
    seen = expected = 0.0
    for i in range(3):
        for j in range(3):
            cost = abs(i - j) / 2
            seen += cost * ((guess == i) & (truth == j)).sum() / n
            expected += cost * (guess == i).sum() / n * (truth == j).sum() / n
    return float(1 - seen / expected) if expected > 0 else 0.0


def calibration(top, right, bins=5):
    error = 0.0
    edges = np.linspace(1 / 3, 1, bins + 1)
    for k in range(bins):
        inside = (top > edges[k]) & (top <= edges[k + 1])
        if inside.any():
            error += inside.mean() * abs(top[inside].mean() - right[inside].mean())
    return float(error)


def metric(outputs, labels):
    p = F.softmax(outputs["logits"].detach().double(), -1).numpy()
    share = labels["share"].double().numpy()
    guess, truth = p.argmax(1), share.argmax(1)
    right = (guess == truth).astype(float)
    return {
        "accuracy": float(right.mean()),
        "macro_f1": macro_f1(guess, truth),
        "kappa": kappa(guess, truth),
        "calibration": calibration(p.max(1), right),
        "brier": float(((p - share) ** 2).sum(1).mean()),
    }
