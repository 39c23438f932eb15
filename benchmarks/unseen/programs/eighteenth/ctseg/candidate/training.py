import paddle
from paddle.nn.utils import clip_grad_norm_
from paddle.optimizer import Momentum
from paddle.optimizer.lr import PolynomialDecay

from .objectives import supervise

BASE_LR, TOTAL, POWER = 0.02, 48, 0.9
MOMENTUM, DECAY, MAX_NORM, EMA = 0.95, 0.002, 3.0, 0.98


class AveragedWeights:
    def __init__(self, network, limit=EMA):
        self.limit, self.t = limit, 0
        self.average = {name: p.detach().clone() for name, p in network.named_parameters()}

    @paddle.no_grad()
    def track(self, network):
        self.t += 1
        keep = min(self.limit, (1 + self.t) / (10 + self.t))
        for name, p in network.named_parameters():
            self.average[name] = self.average[name] * keep + p.detach() * (1 - keep)

    @paddle.no_grad()
    def gap(self, network):
        squares = [paddle.sum(paddle.square(self.average[n] - p)) for n, p in network.named_parameters()]
        return paddle.sqrt(paddle.add_n(squares))


def make_optimizer(network):
    groups = {True: [], False: []}
    for name, p in network.named_parameters():
        groups[p.ndim > 1 and not name.startswith("logits_")].append(p)
    schedule = PolynomialDecay(learning_rate=BASE_LR, decay_steps=TOTAL, end_lr=0.0, power=POWER, cycle=False)
    optimizer = Momentum(learning_rate=schedule, momentum=MOMENTUM, use_nesterov=True,
                         parameters=[{"params": groups[True], "weight_decay": DECAY},
                                     {"params": groups[False], "weight_decay": 0.0}])
    optimizer.averaged = AveragedWeights(network)
    return optimizer


def one_step(network, optimizer, batch):
    optimizer.clear_grad()
    losses = supervise(network(batch["image"]), batch["label"])
    losses["loss"].backward()
    clip_grad_norm_(network.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.averaged.track(network)
    report = {name: value.detach() for name, value in losses.items()}
    report["ema_distance"] = optimizer.averaged.gap(network)
    return report
