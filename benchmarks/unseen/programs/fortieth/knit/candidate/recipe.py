import paddle
from paddle.optimizer import Momentum
from paddle.optimizer.lr import LinearWarmup, MultiStepDecay

from .objective import row_loss

PEAK = 0.05
WARM_UP = 5
DROP_AT, DROP_BY = [12, 24], 0.3
L2 = 1e-2
MOST_GRADIENT = 0.05
MOST_LENGTH = 1.0


def build_rate():
    after = MultiStepDecay(PEAK, milestones=DROP_AT, gamma=DROP_BY)
    return LinearWarmup(after, warmup_steps=WARM_UP, start_lr=0.2 * PEAK, end_lr=PEAK)


def is_decayed(name, p):
    return p.ndim > 1 and not name.startswith("vectors")


def build_momentum(net):
    heavy = [p for n, p in net.named_parameters() if is_decayed(n, p)]
    light = [p for n, p in net.named_parameters() if not is_decayed(n, p)]
    return Momentum(
        learning_rate=build_rate(),
        momentum=0.9,
        use_nesterov=True,
        parameters=[{"params": heavy, "weight_decay": L2}, {"params": light, "weight_decay": 0.0}],
    )


def cut(table, most):
    with paddle.no_grad():
        length = table.square().sum(axis=1, keepdim=True).sqrt()
        table.set_value(paddle.where(length > most, table * (most / length), table))


def one_step(net, optimizer, batch):
    net.train()
    rows, facts, truth = batch
    value = row_loss(net(rows, facts), truth)
    value.backward()
    paddle.nn.utils.clip_grad_value_(net.parameters(), MOST_GRADIENT)
    optimizer.step()
    optimizer.clear_grad()
    cut(net.vectors.weight, MOST_LENGTH)
    return value.detach()
