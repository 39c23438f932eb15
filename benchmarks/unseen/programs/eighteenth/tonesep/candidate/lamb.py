"""Layer-wise adaptive moments; own schedule."""
import paddle
from paddle import nn
from paddle.optimizer import Optimizer
from paddle.optimizer.lr import LRScheduler

from .settings import OPTIM


class WarmupHalving(LRScheduler):
    def __init__(self, peak, warmup, half_life):
        self.peak, self.warmup, self.half_life = peak, warmup, half_life
        super().__init__(learning_rate=peak)

    def get_lr(self):
        n = self.last_epoch
        if n < self.warmup:
            return self.peak * (n + 1) / (self.warmup + 1)
        return self.peak * 2.0 ** (-(n - self.warmup) / self.half_life)


class TrustedAdam(Optimizer):
    """Adam steps; those of decayed tensors are scaled to the tensor's own norm."""

    def __init__(self, learning_rate, decayed, plain, beta1, beta2, decay, epsilon=1e-6, ceiling=10.0):
        super().__init__(learning_rate=learning_rate, parameters=list(decayed) + list(plain))
        self.decayed = {p.name for p in decayed}
        self.beta1, self.beta2, self.decay = beta1, beta2, decay
        self.epsilon, self.ceiling = epsilon, ceiling
        self.moments = {}
        self.count = 0

    def state_dict(self):
        kept = super().state_dict()
        kept["moments"] = dict(self.moments)
        kept["count"] = self.count
        return kept

    def set_state_dict(self, state_dict):
        state = dict(state_dict)
        self.moments, self.count = dict(state.pop("moments")), state.pop("count")
        super().set_state_dict(state)

    def _trust(self, weight, update):
        ratio = paddle.norm(weight) / paddle.norm(update)
        usable = paddle.logical_and(paddle.isfinite(ratio), ratio > 0)
        return paddle.clip(paddle.where(usable, ratio, paddle.ones_like(ratio)), max=self.ceiling)

    @paddle.no_grad()
    def step(self):
        self.count += 1
        lr = self.get_lr()
        for p in self._parameter_list:
            if p.stop_gradient or p.grad is None:
                continue
            first, second = self.moments.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            first = self.beta1 * first + (1 - self.beta1) * p.grad
            second = self.beta2 * second + (1 - self.beta2) * paddle.square(p.grad)
            self.moments[p.name] = (first, second)
            update = first / (1 - self.beta1 ** self.count)
            update = update / (paddle.sqrt(second / (1 - self.beta2 ** self.count)) + self.epsilon)
            if p.name in self.decayed:
                update = update + self.decay * p
                update = update * self._trust(p, update)
            p.set_value(p - lr * update)


def split_parameters(network):
    """Kernels of full convolutions and dense layers decay, everything else does not."""
    decayed = []
    for layer in network.sublayers():
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv1D) and layer._groups == 1):
            decayed.append(layer.weight)
    names = {p.name for p in decayed}
    return decayed, [p for p in network.parameters() if p.name not in names]


def create_optimizer(network):
    schedule = WarmupHalving(OPTIM["lr"], OPTIM["warmup"], OPTIM["half_life"])
    decayed, plain = split_parameters(network)
    return TrustedAdam(schedule, decayed, plain, OPTIM["beta1"], OPTIM["beta2"], OPTIM["decay"])
