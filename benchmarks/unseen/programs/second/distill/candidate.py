import numpy as np
import paddle
import paddle.nn.functional as F

from nets import Pair

TEMPERATURE = 4.0


def build_model():
    return Pair()


def loss(outputs, labels):
    log_p = F.log_softmax(outputs["student"] / TEMPERATURE, axis=-1)
    log_q = F.log_softmax(outputs["teacher"] / TEMPERATURE, axis=-1)
    kd = (log_q.exp() * (log_q - log_p)).sum(axis=-1).mean()
    hard = F.cross_entropy(outputs["student"], labels)
    mine, goal = outputs["hint"]
    cosine = paddle.einsum("ncl,ncl->nl", mine, goal)
    return 0.7 * TEMPERATURE ** 2 * kd + 0.3 * hard + 0.5 * (1 - cosine.mean())


def metric(outputs, labels):
    s, t, y = outputs["student"].numpy(), outputs["teacher"].numpy(), labels.numpy()
    guess = s.argmax(-1)
    f1 = []
    for c in range(7):
        tp = np.sum((guess == c) & (y == c))
        f1.append(2 * tp / max(np.sum(guess == c) + np.sum(y == c), 1))
    place = 1 + (s > s[np.arange(len(y)), y][:, None]).sum(-1)
    return {"macro_f1": float(np.mean(f1)), "agreement": float(np.mean(guess == t.argmax(-1))), "mrr": float(np.mean(1 / place))}


def build_optimizer(model):
    rate = paddle.optimizer.lr.CosineAnnealingDecay(0.05, T_max=6, eta_min=1e-3)
    trained = [p for p in model.parameters() if p.trainable]
    return paddle.optimizer.Momentum(rate, 0.9, parameters=trained, weight_decay=paddle.regularizer.L2Decay(1e-4))


def build_scheduler(optimizer):
    return optimizer._learning_rate
