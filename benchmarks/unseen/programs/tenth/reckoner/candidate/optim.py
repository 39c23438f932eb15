import math

import paddle
from paddle import optimizer as O


def warmup_cosine(step, warmup=8, total=110, floor=0.1):
    if step < warmup:
        return (step + 1) / warmup
    progress = min((step - warmup) / (total - warmup), 1.0)
    return floor + (1.0 - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


def decayed_names(model):
    """Matrices of the layers; neither scales nor the embedding."""
    return {p.name for n, p in model.named_parameters() if p.ndim > 1 and "embeddings" not in n}


def create_optimizer(model, peak=4e-3):
    names = decayed_names(model)
    return O.AdamW(
        learning_rate=O.lr.LambdaDecay(peak, lr_lambda=warmup_cosine),
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        parameters=model.parameters(),
        weight_decay=0.2,
        apply_decay_param_fun=lambda name: name in names,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5),
    )
