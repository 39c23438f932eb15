import numpy as np
import torch
import torch.nn.functional as F

from graphs import statistics


def kind_loss(logits, kind):
    weights = logits.new_tensor(statistics()["weights"])
    return F.cross_entropy(logits, kind, weight=weights, ignore_index=-1)


def property_loss(guess, labels):
    known = labels["known"].to(guess.dtype)
    each = F.smooth_l1_loss(guess, labels["props"].to(guess.dtype), reduction="none", beta=0.5)
    return ((each * known).sum(0) / known.sum(0).clamp(min=1)).sum()


def losses(outputs, labels):
    """Three tasks, each divided by its own learnt variance."""
    parts = {
        "kind": kind_loss(outputs["kind"], labels["kind"]),
        "props": property_loss(outputs["props"], labels),
        "bonds": outputs["bond_error"].mean(),
    }
    stacked = torch.stack(list(parts.values()))
    s = outputs["log_variance"]
    scale = s.new_tensor([1.0, 0.5, 0.5])
    parts["loss"] = (scale * torch.exp(-s) * stacked + 0.5 * s).sum()
    return parts


def metrics(outputs, labels):
    stats = statistics()
    kind = labels["kind"].detach().cpu().numpy()
    guess = outputs["kind"].detach().cpu().numpy().argmax(1)
    labelled = kind >= 0
    kind, guess = kind[labelled], guess[labelled]
    f1 = []
    for c in range(3):
        hit = ((kind == c) & (guess == c)).sum()
        total = (kind == c).sum() + (guess == c).sum()
        if total:
            f1.append(2 * hit / total)
    result = {
        "accuracy": float((kind == guess).mean()) if len(kind) else 0.0,
        "macro_f1": float(np.mean(f1)) if f1 else 0.0,
        "bond_rmse": float(np.sqrt(outputs["bond_error"].detach().cpu().numpy().astype("float64").mean())),
    }
    known = labels["known"].detach().cpu().numpy() > 0
    truth = labels["props"].detach().cpu().numpy().astype("float64") * stats["std"] + stats["mean"]
    found = outputs["props"].detach().cpu().numpy().astype("float64") * stats["std"] + stats["mean"]
    for i, name in enumerate(("gap", "energy")):
        here = known[:, i]
        result[f"mae_{name}"] = float(np.abs(truth - found)[here, i].mean()) if here.any() else 0.0
    return result
