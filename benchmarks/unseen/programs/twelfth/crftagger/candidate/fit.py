import paddle

from chain import likelihood_loss
from options import section

CFG = section("fit")


def warm_then_decay(step):
    step = step + 1
    if step < CFG["warmup"]:
        return step / CFG["warmup"]
    return (step / CFG["warmup"]) ** -0.5


def is_decayed(name, p):
    if p.ndim < 2:
        return False
    return not any(part in name for part in ("words", "table", "norm"))


def make_optimizer(model):
    decayed = {p.name for name, p in model.named_parameters() if is_decayed(name, p)}
    schedule = paddle.optimizer.lr.LambdaDecay(CFG["lr"], warm_then_decay)
    return paddle.optimizer.AdamW(
        schedule,
        beta1=CFG["beta1"],
        beta2=CFG["beta2"],
        epsilon=CFG["epsilon"],
        parameters=model.parameters(),
        weight_decay=CFG["decay"],
        apply_decay_param_fun=lambda name: name in decayed,
    )


@paddle.no_grad()
def clip_gradients(parameters, limit):
    """Scales all gradients together; returns their norm before."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = paddle.add_n([(g * g).sum() for g in grads]).sqrt()
    if float(norm) > limit:
        factor = limit / (norm + 1e-6)
        for g in grads:
            g.scale_(factor)
    return norm


def train_step(model, optimizer, batch):
    model.train()
    loss = likelihood_loss(model(batch["words"], batch["chars"]), batch["labels"])
    loss.backward()
    norm = clip_gradients(model.parameters(), CFG["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": loss.detach(), "grad_norm": norm}
