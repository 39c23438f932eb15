import math

import paddle
from paddle.nn import functional as F
from paddle.nn.utils import clip_grad_value_
from paddle.optimizer.lr import LambdaDecay

from .options import FIT, PHOTOS


def weighted_ce(logits, labels):
    weight = paddle.to_tensor(FIT.label_weights, dtype=logits.dtype)
    return F.cross_entropy(logits.transpose([0, 2, 3, 1]), labels, weight=weight, ignore_index=PHOTOS.void)


def soft_dice(logits, labels, smooth=1.0):
    k = logits.shape[1]
    valid = (labels != PHOTOS.void).astype(logits.dtype).flatten()
    truth = F.one_hot(paddle.clip(labels, max=k - 1), k).astype(logits.dtype).reshape([-1, k])
    guess = F.softmax(logits, axis=1).transpose([0, 2, 3, 1]).reshape([-1, k])
    truth, guess = truth * valid[:, None], guess * valid[:, None]
    both = 2.0 * (truth * guess).sum(axis=0)
    score = (both + smooth) / (truth.sum(axis=0) + guess.sum(axis=0) + smooth)
    return 1.0 - score.mean()


def objective(outputs, labels):
    total = weighted_ce(outputs["out"], labels)
    total = total + FIT.dice * soft_dice(outputs["out"], labels)
    return total + FIT.aux * weighted_ce(outputs["aux"], labels)


def cosine(a, b, t):
    return b + 0.5 * (a - b) * (1.0 + math.cos(math.pi * t))


def one_cycle(step):
    top = FIT.rise * FIT.steps - 1
    floor = 1.0 / FIT.start_div
    if step <= top:
        return cosine(floor, 1.0, step / top)
    rest = (step - top) / (FIT.steps - 1 - top)
    return cosine(1.0, floor / FIT.end_div, min(rest, 1.0))


def adam(model):
    trunk, others = [], []
    for name, p in model.named_parameters():
        (trunk if name.startswith("trunk.") else others).append(p)
    groups = [{"params": others}, {"params": trunk, "learning_rate": FIT.trunk_share}]
    return paddle.optimizer.Adam(learning_rate=FIT.rate, beta1=FIT.beta1, beta2=FIT.beta2,
                                 parameters=groups, weight_decay=FIT.decay)


def cycle_for(optimizer):
    schedule = LambdaDecay(FIT.rate, one_cycle)
    optimizer.set_lr_scheduler(schedule)
    return schedule


def averaged(model):
    if not hasattr(model, "mean_weights"):
        model.mean_weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    return model.mean_weights


def fit_batch(model, optimizer, batch):
    mean = averaged(model)
    photos, labels = batch
    model.train()
    optimizer.clear_grad()
    value = objective(model(photos), labels)
    value.backward()
    clip_grad_value_(model.parameters(), FIT.limit)
    optimizer.step()
    with paddle.no_grad():
        for n, p in model.named_parameters():
            mean[n] = FIT.averaging * mean[n] + (1.0 - FIT.averaging) * p
    return float(value)
