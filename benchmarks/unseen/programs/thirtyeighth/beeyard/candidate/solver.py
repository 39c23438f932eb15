"""Nesterov's momentum under a warm-up and a polynomial fall."""
import paddle
from paddle.optimizer.lr import LinearWarmup, PolynomialDecay

from .losses import whole

PEAK = 0.02
WARM, ALL = 6, 54
DECAY = 5e-3


def rates():
    fall = PolynomialDecay(PEAK, decay_steps=ALL - WARM, end_lr=0.0, power=0.9)
    return LinearWarmup(fall, warmup_steps=WARM, start_lr=0.1 * PEAK, end_lr=PEAK)


def is_kernel(name, value):
    return value.ndim == 4 and name.endswith("weight")


def solver(network):
    named = list(network.named_parameters())
    kernels = [value for name, value in named if is_kernel(name, value)]
    others = [value for name, value in named if not is_kernel(name, value)]
    return paddle.optimizer.Momentum(
        learning_rate=rates(),
        momentum=0.9,
        use_nesterov=True,
        parameters=[{"params": kernels, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}],
    )


def learn(network, optimizer, image, truth, most=2.0):
    value = whole(network(image), truth)
    value.backward()
    paddle.nn.utils.clip_grad_norm_(network.parameters(), most)
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()
