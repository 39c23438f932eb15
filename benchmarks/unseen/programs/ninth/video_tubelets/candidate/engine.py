"""Loss, metric, optimizer, schedule, step."""
import math

import numpy as np
import paddle
import paddle.nn.functional as F

from .config import cfg


def criterion(logits, targets):
    targets = targets.astype(logits.dtype)
    # not F.cross_entropy(soft_label=True): its gradient takes targets to add up to exactly 1, those of mixup are rounded
    entropy = paddle.mean(-paddle.sum(targets * F.log_softmax(logits, axis=-1), axis=-1))
    z = paddle.logsumexp(logits, axis=-1)
    return entropy + cfg.train.z_penalty * paddle.mean(z * z)


def topk_hits(scores, truth, k):
    ranked = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    return np.any(ranked == truth[:, None], axis=-1)


def evaluate(logits, targets):
    scores, truth = logits.numpy(), targets.numpy().argmax(axis=-1)
    first = topk_hits(scores, truth, 1)
    recalls = [first[truth == c].mean() for c in np.unique(truth)]
    return {
        "top1": float(first.mean()),
        "top2": float(topk_hits(scores, truth, 2).mean()),
        "class_mean": float(np.mean(recalls)),
    }


class LayerDecay:
    """Depth of a parameter in the network, and the factor on its learning rate."""

    def __init__(self, depth, rate):
        self.depth = depth
        self.rate = rate

    def layer(self, name):
        if name.startswith(("embed.", "time_positions", "space_positions")):
            return 0
        if name.startswith("blocks."):
            return 1 + int(name.split(".")[1])
        return self.depth + 1

    def __call__(self, name):
        return self.rate ** (self.depth + 1 - self.layer(name))


def no_decay(name, parameter):
    return parameter.ndim <= 1 or name.endswith("_positions")


def param_groups(model):
    scale = LayerDecay(cfg.model.depth, cfg.train.layer_decay)
    table = {}
    for name, parameter in model.named_parameters():
        decay = 0.0 if no_decay(name, parameter) else cfg.train.weight_decay
        table.setdefault((scale(name), decay), []).append(parameter)
    return [{"params": members, "learning_rate": factor, "weight_decay": decay} for (factor, decay), members in table.items()]


def warmup_cosine(step):
    t = cfg.train
    if step < t.warmup_steps:
        return (step + 1) / (t.warmup_steps + 1)
    progress = (step - t.warmup_steps) / (t.total_steps - t.warmup_steps)
    cosine = math.cos(math.pi * min(progress, 1.0))
    return t.final_factor + (1.0 - t.final_factor) * (1.0 + cosine) / 2.0


def create_optimizer(model):
    schedule = paddle.optimizer.lr.LambdaDecay(cfg.train.learning_rate, lr_lambda=warmup_cosine)
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        parameters=param_groups(model),
        beta1=cfg.train.beta1,
        beta2=cfg.train.beta2,
        epsilon=1e-8,
        weight_decay=cfg.train.weight_decay,
    )


def train_one(model, optimizer, clips, targets):
    """One update; the batch goes through the network in parts."""
    count = clips.shape[0]
    size = -(-count // cfg.train.accumulate)
    total = paddle.zeros([], dtype=clips.dtype)
    for start in range(0, count, size):
        x, y = clips[start : start + size], targets[start : start + size]
        part = criterion(model(x), y) * (x.shape[0] / count)
        part.backward()
        total = total + part.detach()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), cfg.train.max_norm)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": total, "gradient_norm": norm}
