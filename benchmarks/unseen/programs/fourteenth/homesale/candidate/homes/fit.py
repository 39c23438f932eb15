import paddle
import paddle.nn.functional as F
from paddle.nn.utils import clip_grad_norm_
from paddle.optimizer.lr import CosineAnnealingDecay, LinearWarmup

from .config import training as T


def both_tasks(out, answer):
    speed_loss = F.cross_entropy(out["speed"], answer["speed"])
    beta = T["huber"]
    each = F.smooth_l1_loss(out["price"], answer["price"], reduction="none", delta=beta) / beta
    known = answer["priced"]
    price_loss = paddle.sum(each * known) / paddle.clip(paddle.sum(known), min=1.0)
    s = out["log_vars"]
    precision = paddle.exp(-s)
    return precision[0] * speed_loss + 0.5 * precision[1] * price_loss + 0.5 * s.sum()


class DecoupledAdam(paddle.optimizer.Optimizer):
    def __init__(self, parameters, learning_rate, beta1, beta2, epsilon):
        super().__init__(learning_rate=learning_rate, parameters=parameters)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self._moments = {}
        self._count = 0

    @paddle.no_grad()
    def step(self):
        self._count += 1
        fix1 = 1.0 - self.beta1 ** self._count
        fix2 = 1.0 - self.beta2 ** self._count
        for group in self._param_groups:
            rate = self.get_lr() * group.get("learning_rate", 1.0)
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, rate, group["decay"], fix1, fix2)

    def _update(self, p, rate, decay, fix1, fix2):
        g = p.grad
        first, second = self._moments.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
        first = self.beta1 * first + (1.0 - self.beta1) * g
        second = self.beta2 * second + (1.0 - self.beta2) * g * g
        self._moments[p.name] = (first, second)
        change = (first / fix1) / (paddle.sqrt(second / fix2) + self.epsilon)
        p.set_value(p * (1.0 - rate * decay) - rate * change)

    def state_dict(self):
        state = super().state_dict()
        state["moments"] = {name: tuple(each) for name, each in self._moments.items()}
        state["count"] = self._count
        return state

    def set_state_dict(self, state_dict):
        state = dict(state_dict)
        self._moments = {name: tuple(each) for name, each in state.pop("moments", {}).items()}
        self._count = state.pop("count", 0)
        super().set_state_dict(state)


def optimizer_for(model):
    matrices, rest = [], []
    for name, p in model.named_parameters():
        if name == "balance":
            continue
        inner = name.startswith("layers.") or name.startswith("to_")
        (matrices if inner and p.ndim == 2 else rest).append(p)
    groups = [
        dict(params=[model.balance], decay=0.0, learning_rate=T["balance_scale"]),
        dict(params=rest, decay=0.0),
        dict(params=matrices, decay=T["decay"]),
    ]
    return DecoupledAdam(groups, T["rate"], *T["betas"], T["epsilon"])


def schedule_for(optimizer):
    rate = T["rate"]
    down = CosineAnnealingDecay(rate, T_max=T["all_steps"] - T["warm_steps"])
    schedule = LinearWarmup(down, T["warm_steps"], start_lr=T["warm_from"] * rate, end_lr=rate)
    optimizer.set_lr_scheduler(schedule)
    return schedule


def pieces(batch, n):
    inputs, answer = batch
    size = -(-inputs[0].shape[0] // n)
    for start in range(0, inputs[0].shape[0], size):
        span = slice(start, start + size)
        yield [x[span] for x in inputs], {k: v[span] for k, v in answer.items()}


def learn(model, optimizer, batch):
    model.train()
    seen = 0.0
    for x, y in pieces(batch, T["accumulate"]):
        value = both_tasks(model(*x), y) / T["accumulate"]
        value.backward()
        seen += float(value)
    clip_grad_norm_(model.parameters(), T["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return seen
