"""What is learnt from a plan, and how."""
import paddle

from .kit import part


def objective(outputs, plan, w_delay, w_split, w_cycle, w_offset, bend):
    stages = plan.shape[-1] - 3
    greens, cycle, way = paddle.split(plan, [stages, 1, 2], axis=-1)
    exists = greens > 0
    target = greens / greens.sum(axis=-1, keepdim=True)
    share = outputs["greens"] / outputs["greens"].sum(axis=-1, keepdim=True)
    share = paddle.where(exists, share, paddle.ones_like(share))
    split = -(target * paddle.log(share)).sum(axis=-1).mean()
    off = paddle.log(outputs["cycle"]) - paddle.log(cycle.squeeze(-1))
    size = off.abs()
    length = paddle.where(size < bend, 0.5 * off * off / bend, size - 0.5 * bend).mean()
    turn = 1 - paddle.sum(outputs["way"] * way, axis=-1).mean()
    delay = outputs["delay"].mean()
    total = w_delay * delay + w_split * split + w_cycle * length + w_offset * turn
    return dict(delay=delay, split=split, cycle=length, offset=turn, loss=total)


@part("rate/warm_then_power")
def warm_then_power(base, rise, end, exponent, bottom):
    def share(step):
        if step < rise:
            return (step + 1.0) / (rise + 1.0)
        done = min(1.0, (step - rise) / (end - rise))
        return bottom + (1.0 - bottom) * (1.0 - done) ** exponent
    return paddle.optimizer.lr.LambdaDecay(base, share)


def adam(model, rate, s):
    body, heads = [model.lift, model.talk], [model.stage_view, model.clock]
    groups = []
    for layers, times in ((body, 1.0), (heads, float(s["head_times"]))):
        own = [p for layer in layers for p in layer.parameters()]
        groups.append(dict(params=[p for p in own if p.ndim >= 2], learning_rate=times, weight_decay=s["decay"]))
        groups.append(dict(params=[p for p in own if p.ndim < 2], learning_rate=times, weight_decay=0.0))
    return paddle.optimizer.AdamW(rate, s["beta1"], s["beta2"], epsilon=s["tiny"], parameters=groups, weight_decay=s["decay"])


@paddle.no_grad()
def shorten(parameters, longest):
    """Scale all gradients together where they are longer than `longest`; tells the length."""
    grads = [p.grad for p in parameters if p.grad is not None]
    length = paddle.add_n([g.square().sum() for g in grads]).sqrt()
    if float(length) > longest:
        for g in grads:
            g.set_value(g * (longest / length))
    return length
