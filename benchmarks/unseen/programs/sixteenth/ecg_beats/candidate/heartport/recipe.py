"""Loss, scores, optimizer, learning rate and one step of training."""
import math

import numpy as np
import paddle
import paddle.nn.functional as F


def class_weights(labels, classes, beta):
    n = np.bincount(labels, minlength=classes)
    w = (1 - beta) / (1 - beta ** n)
    return (classes * w / w.sum()).tolist()


def focal_loss(logits, labels, weights, gamma):
    one_hot = F.one_hot(labels, logits.shape[-1]).astype(logits.dtype)
    log_p = (F.log_softmax(logits, axis=-1) * one_hot).sum(-1)
    w = (one_hot * paddle.to_tensor(weights, dtype=logits.dtype)).sum(-1)
    return (w * paddle.pow(1.0 - paddle.exp(log_p), gamma) * -log_p).sum() / w.sum()


def scores(logits, labels):
    classes = logits.shape[-1]
    guess = F.one_hot(logits.argmax(axis=-1), classes).astype("float64")
    truth = F.one_hot(labels, classes).astype("float64")
    hits = (guess * truth).sum(0)
    n_true, n_guess = truth.sum(0), guess.sum(0)
    seen = (n_true + n_guess > 0).astype("float64")
    f1 = 2 * hits / (n_true + n_guess).clip(min=1)
    in_truth = (n_true > 0).astype("float64")
    recall = hits / n_true.clip(min=1)
    return {
        "macro_f1": (f1 * seen).sum() / seen.sum(),
        "sensitivity": (recall * in_truth).sum() / in_truth.sum(),
        "accuracy": hits.sum() / len(labels),
    }


class WarmupCosine(paddle.optimizer.lr.LRScheduler):
    def __init__(self, peak, total, warmup, floor):
        self.total, self.warmup, self.floor = total, warmup, floor
        super().__init__(learning_rate=peak)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warmup:
            return self.base_lr * (t + 1) / (self.warmup + 1)
        done = min(1.0, (t - self.warmup) / max(1, self.total - self.warmup))
        cosine = (1 + math.cos(math.pi * done)) / 2
        return self.base_lr * (self.floor + (1 - self.floor) * cosine)


def momentum_optimizer(net, optim, schedule, steps_per_epoch):
    groups = {"matrix": [], "vector": [], "spectral": []}
    for name, p in net.named_parameters():
        if name.startswith("spec"):
            groups["spectral"].append(p)
        else:
            groups["vector" if len(p.shape) == 1 else "matrix"].append(p)
    rate = WarmupCosine(optim["lr"], schedule["epochs"] * steps_per_epoch, schedule["warmup_steps"], schedule["floor"])
    decay = optim["weight_decay"]
    return paddle.optimizer.Momentum(
        learning_rate=rate,
        momentum=optim["momentum"],
        use_nesterov=True,
        parameters=[
            {"params": groups["matrix"], "weight_decay": decay},
            {"params": groups["vector"], "weight_decay": 0.0},
            {"params": groups["spectral"], "weight_decay": decay, "learning_rate": optim["spectral_factor"]},
        ],
    )


def clip_gradients(parameters, limit):
    """torch.nn.utils.clip_grad_norm_"""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = paddle.sqrt(sum((g * g).sum() for g in grads))
    factor = paddle.clip(limit / (norm + 1e-6), max=1.0)
    for g in grads:
        g.set_value(g * factor)
    return norm


def step(net, optimizer, batch, criterion, limit):
    *inputs, labels = batch
    value = criterion(net(*inputs), labels)
    value.backward()
    norm = clip_gradients(net.parameters(), limit)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": value.detach(), "grad_norm": norm}
