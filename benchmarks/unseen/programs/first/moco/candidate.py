import math

import numpy as np
import paddle
import paddle.nn.functional as F

from contrast import MomentumContrast
from encoder import encoder

WEIGHTS = [1.0, 2.0, 0.5, 1.5]


def build_model():
    return MomentumContrast(lambda: encoder(width=8, features=6), features=6, classes=4)


def same_class_loss(z, y, temperature=0.3):
    n = z.shape[0]
    sim = paddle.matmul(z, z, transpose_y=True) / temperature
    others = 1.0 - paddle.eye(n, dtype=sim.dtype)
    denominator = (sim.exp() * others).sum(axis=1, keepdim=True).log()
    mates = (y.unsqueeze(0) == y.unsqueeze(1)).astype(sim.dtype) * others
    count = mates.sum(axis=1)
    each = ((sim - denominator) * mates).sum(axis=1) / count.clip(min=1.0)
    some = (count > 0).astype(sim.dtype)
    return -(each * some).sum() / some.sum()


def loss(out, y):
    logits, scores, z = out
    instance = -F.log_softmax(logits, axis=1)[:, 0].mean()
    weight = paddle.to_tensor(WEIGHTS, dtype=scores.dtype)
    return instance + 0.5 * F.cross_entropy(scores, y, weight=weight) + 0.1 * same_class_loss(z, y)


def metric(out, y):
    logits, scores, _ = (t.numpy() for t in out)
    better = np.sum(logits[:, 1:] > logits[:, :1], axis=1)
    guess, gold = scores.argmax(axis=1), y.numpy()
    recall = [np.mean(guess[gold == c] == c) for c in np.unique(gold)]
    return {"top1": float(np.mean(better == 0)), "top5": float(np.mean(better < 5)), "mean_class_acc": float(np.mean(recall))}


def build_optimizer(model):
    def factor(step):
        drop = 0.1 if step >= 10 else 1.0
        return drop * (1.0 + math.cos(step / 20 * math.pi)) / 2

    return paddle.optimizer.Momentum(
        learning_rate=paddle.optimizer.lr.LambdaDecay(0.03, factor),
        momentum=0.9,
        weight_decay=paddle.regularizer.L2Decay(1e-4),
        parameters=[p for p in model.parameters() if not p.stop_gradient],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate
