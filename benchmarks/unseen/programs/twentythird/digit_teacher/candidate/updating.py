"""Everything that happens between a batch and new weights."""
import paddle

from criteria import loss

MICRO = 2
MAX_NORM = 0.8
CEILING = 0.99


def accumulate(model, batch):
    total = batch[-1].shape[0]
    size = -(-total // MICRO)
    sums = dict.fromkeys(("loss", "ce", "consistency"), 0.0)
    for start in range(0, total, size):
        weak, strong, y = (t[start:start + size] for t in batch)
        share = y.shape[0] / total
        parts = loss(model(weak, strong), y)
        (parts["loss"] * share).backward()
        for k in sums:
            sums[k] += float(parts[k]) * share
    return sums


@paddle.no_grad()
def clip(params):
    grads = [p.grad for p in params if p.grad is not None]
    norm = paddle.sqrt(sum((g * g).sum() for g in grads))
    coef = paddle.clip(MAX_NORM / (norm + 1e-6), max=1.0)
    for g in grads:
        g.set_value(g * coef)
    return float(norm)


@paddle.no_grad()
def follow(model):
    n = float(model.updates.item())
    d = min(CEILING, (1.0 + n) / (10.0 + n))
    student = dict(model.student.named_parameters())
    for name, t in model.teacher.named_parameters():
        t.set_value(d * t + (1.0 - d) * student[name])
    model.updates.set_value(model.updates + 1)
