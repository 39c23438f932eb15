import paddle

from .criteria import forecast_loss
from .options import TRAIN


def rate(step):
    warmup = TRAIN["warmup"]
    if step < warmup:
        return (step + 1) / warmup
    return (warmup / (step + 1)) ** 0.5


def make_optimizer(model):
    schedule = paddle.optimizer.lr.LambdaDecay(TRAIN["lr"], rate)
    return paddle.optimizer.Adam(
        schedule,
        beta1=TRAIN["beta1"],
        beta2=TRAIN["beta2"],
        epsilon=TRAIN["epsilon"],
        weight_decay=TRAIN["weight_decay"],
        parameters=model.parameters(),
    )


def cut(batch, count):
    """At most `count` smaller batches, as torch.chunk would cut."""
    rows = batch["labels"].shape[0]
    size = -(-rows // count)
    return [{k: v[i : i + size] for k, v in batch.items()} for i in range(0, rows, size)]


@paddle.no_grad()
def clip_by_norm(parameters, limit):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = paddle.sqrt(sum((g * g).sum() for g in grads))
    factor = paddle.clip(limit / (norm + 1e-6), max=1.0)
    for g in grads:
        g.set_value(g * factor)
    return norm


def train_step(model, optimizer, batch):
    parts = cut(batch, TRAIN["accumulate"])
    optimizer.clear_grad()
    losses, kls = [], []
    for part in parts:
        labels = part.pop("labels")
        outputs = model(**part)
        loss = forecast_loss(outputs, labels)["loss"] / len(parts)
        loss.backward()
        losses.append(loss.detach())
        kls.append(outputs["kl"].mean().detach())
    norm = clip_by_norm(model.parameters(), TRAIN["clip"])
    optimizer.step()
    kl = sum(kls) / len(parts)
    keep = TRAIN["kl_decay"]
    model.kl_mean.set_value(keep * model.kl_mean + (1 - keep) * kl)
    return {"loss": sum(losses), "norm": norm, "kl": kl}
