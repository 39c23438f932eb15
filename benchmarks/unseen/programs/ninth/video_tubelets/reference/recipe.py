"""Loss, metric, parameter groups, schedule and step."""
import math

import torch

from .options import ARCH, RECIPE


def soft_cross_entropy(logits, targets):
    log_z = torch.logsumexp(logits, dim=-1)
    entropy = torch.einsum("bc,bc->b", targets.to(logits.dtype), log_z[:, None] - logits)
    return entropy.mean() + RECIPE.z_penalty * log_z.square().mean()


def hits(logits, targets, k):
    best = logits.topk(k, dim=-1).indices
    return (best == targets.argmax(dim=-1, keepdim=True)).any(dim=-1)


def class_mean(logits, targets):
    """Recall, averaged over the classes that occur."""
    truth, right = targets.argmax(dim=-1), hits(logits, targets, 1)
    return torch.stack([right[truth == c].double().mean() for c in truth.unique()]).mean()


def layer_of(name, depth):
    if name.startswith(("embed", "positions")):
        return 0
    if name.startswith("blocks."):
        return int(name.split(".")[1]) + 1
    return depth + 1


def parameter_groups(model, recipe, depth):
    groups = {}
    for name, parameter in model.named_parameters():
        layer = layer_of(name, depth)
        decays = parameter.ndim > 1 and not name.startswith("positions")
        group = groups.setdefault((layer, decays), {
            "params": [],
            "lr": recipe.rate * recipe.layer_decay ** (depth + 1 - layer),
            "weight_decay": recipe.weight_decay if decays else 0.0,
        })
        group["params"].append(parameter)
    return [groups[key] for key in sorted(groups)]


def optimizer(model):
    return torch.optim.AdamW(parameter_groups(model, RECIPE, ARCH.depth), lr=RECIPE.rate, betas=RECIPE.betas, eps=1e-8)


def factor(step):
    if step < RECIPE.warmup:
        return (step + 1) / (RECIPE.warmup + 1)
    done = min((step - RECIPE.warmup) / (RECIPE.total - RECIPE.warmup), 1.0)
    return RECIPE.final + (1.0 - RECIPE.final) * 0.5 * (1.0 + math.cos(math.pi * done))


def step(model, optimizer, clips, targets, parts=2):
    """One update from the gradients of `parts` parts of the batch."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in zip(clips.chunk(parts), targets.chunk(parts)):
        value = soft_cross_entropy(model(x), y) * (len(x) / len(clips))
        value.backward()
        total = total + value.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
    optimizer.step()
    return {"loss": total, "gradient_norm": norm}
