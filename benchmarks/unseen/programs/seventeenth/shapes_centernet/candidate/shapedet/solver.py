import paddle
from paddle.optimizer import AdamW, lr

from .objective import objective
from .settings import S


def schedule():
    after = lr.MultiStepDecay(S.lr, milestones=[d - S.warmup for d in S.drops], gamma=S.drop_by)
    return lr.LinearWarmup(after, warmup_steps=S.warmup, start_lr=S.lr * S.warmup_from, end_lr=S.lr)


class Averaged:
    """Weights averaged over the updates."""

    def __init__(self, params):
        self.params = params
        self.values = [p.detach().clone() for p in params]
        self.count = 0

    @paddle.no_grad()
    def accumulate(self):
        self.count += 1
        keep = min(S.average, (1 + self.count) / (S.average_ramp + self.count))
        self.values = [v * keep + p * (1 - keep) for v, p in zip(self.values, self.params)]

    @paddle.no_grad()
    def distance(self):
        return paddle.sqrt(paddle.add_n([paddle.sum(paddle.square(v - p)) for v, p in zip(self.values, self.params)]))


def solver(model):
    trunk = {id(p) for p in model.trunk_parameters()}
    groups = []
    for slow in (True, False):
        for flat in (True, False):
            members = [p for p in model.parameters() if (id(p) in trunk) == slow and (p.ndim == 1) == flat]
            groups.append({
                "params": members,
                "learning_rate": S.trunk_lr if slow else 1.0,
                "weight_decay": 0.0 if flat else S.decay,
            })
    optimizer = AdamW(learning_rate=schedule(), beta1=S.beta1, beta2=S.beta2, parameters=groups, weight_decay=S.decay)
    optimizer.averaged = Averaged(model.parameters())
    return optimizer


def one_update(model, optimizer, images, gt):
    terms = objective(model(images), gt)
    terms["loss"].backward()
    norm = paddle.nn.utils.clip_grad_norm_(model.parameters(), S.max_norm)
    optimizer.step()
    optimizer.clear_grad()
    optimizer.averaged.accumulate()
    out = {k: v.detach() for k, v in terms.items()}
    out["grad_norm"] = norm
    out["ema_gap"] = optimizer.averaged.distance()
    return out
