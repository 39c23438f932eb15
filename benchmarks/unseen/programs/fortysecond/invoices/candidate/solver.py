import math
from collections import defaultdict

import paddle
from paddle.optimizer.lr import LambdaDecay

from .catalogue import SETTINGS, offers


def height(name, n_blocks):
    parts = name.split(".")
    if "blocks" in parts:
        return int(parts[parts.index("blocks") + 1]) + 1
    low = parts[0] == "embedder" or parts[1] in ("sideways", "downwards")
    return 0 if low else n_blocks + 1


@offers("schedule", "cosine_after_warmup")
def cosine_after_warmup(rate, rise, end, lowest):
    def share(step):
        if step < rise:
            return (step + 1) / (rise + 1)
        way = min((step - rise) / (end - rise), 1.0)
        return lowest + (1 - lowest) * (1 + math.cos(way * math.pi)) / 2
    return LambdaDecay(rate, share)


@offers("solver", "adamw_by_depth")
def adamw_by_depth(model, schedule, rate, shrink, decay, beta1, beta2, epsilon):
    top = SETTINGS["net"]["spatial"]["blocks"] + 1
    norms = {id(p) for l in model.sublayers() if isinstance(l, paddle.nn.LayerNorm) for p in l.parameters()}
    bundles = defaultdict(list)
    for name, p in model.named_parameters():
        free = id(p) in norms or len(p.shape) < 2
        bundles[height(name, top - 1), free].append(p)
    groups = [
        {"params": members, "learning_rate": shrink ** (top - level), "weight_decay": 0.0 if free else decay}
        for (level, free), members in sorted(bundles.items(), key=lambda kv: kv[0])
    ]
    return paddle.optimizer.AdamW(
        learning_rate=schedule(rate), parameters=groups, beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=decay)
