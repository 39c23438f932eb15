import math

import paddle
import paddle.nn.functional as F

from .factory import maker

TABLES = ("word_table", "letter_table", "head_table", "tail_table")


@maker("smoothed_fill")
def smoothed_fill(eps, vowels, stars, knee):
    """Weighted cross entropy with smoothed targets, divided by the weights of the true letters, and a smooth L1."""

    def objective(outputs, labels):
        logp = F.log_softmax(outputs["letters"], axis=-1)
        kinds = logp.shape[-1]
        weight = paddle.to_tensor([vowels if c in "AEIOU" else 1.0 for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"], dtype=logp.dtype)
        asked = (labels["letters"] >= 0).astype(logp.dtype)
        truth = F.one_hot(labels["letters"].clip(min=0), kinds).astype(logp.dtype)
        soft = (1 - eps) * truth + eps / kinds
        each = -(soft * weight * logp).sum(-1)
        share = (truth * weight).sum(-1) * asked
        fill = (each * asked).sum() / share.sum()

        off = (outputs["hard"] - labels["hard"].astype(logp.dtype)).abs()
        bent = paddle.where(off < knee, 0.5 * off * off / knee, off - 0.5 * knee)
        return fill + stars * bent.mean()

    return objective


@maker("warm_cosine")
def warm_cosine(base, warm_steps, all_steps, lowest):
    def factor(step):
        if step < warm_steps:
            return (step + 1) / warm_steps
        t = min((step - warm_steps) / (all_steps - warm_steps), 1.0)
        return lowest + (1 - lowest) * (1 + math.cos(math.pi * t)) / 2

    return paddle.optimizer.lr.LambdaDecay(base, factor)


def adamw(net, schedule, rate, table_rate, beta1, beta2, epsilon, decay):
    kinds = {"table": [], "vector": [], "matrix": []}
    for name, p in net.named_parameters():
        kind = "table" if name.split(".")[0] in TABLES else "vector" if p.ndim == 1 else "matrix"
        kinds[kind].append(p)
    groups = [
        {"params": kinds["table"], "learning_rate": table_rate / rate, "weight_decay": 0.0},
        {"params": kinds["vector"], "weight_decay": 0.0},
        {"params": kinds["matrix"], "weight_decay": decay},
    ]
    return paddle.optimizer.AdamW(schedule, beta1=beta1, beta2=beta2, epsilon=epsilon, parameters=groups, weight_decay=decay)
