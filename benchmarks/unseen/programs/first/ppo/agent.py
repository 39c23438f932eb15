import paddle
from paddle import nn

from storage import ACTIONS, FEATURES


class ObservationFilter(nn.Layer):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", paddle.zeros([size]))
        self.register_buffer("var", paddle.ones([size]))
        self.register_buffer("count", paddle.to_tensor(1e-4))

    def forward(self, x):
        if self.training:
            with paddle.no_grad():
                self.merge(x)
        z = (x - self.mean) * paddle.rsqrt(self.var + 1e-8)
        return z.clip(-5.0, 5.0)

    def merge(self, x):
        """Chan's parallel rule"""
        n = float(x.shape[0])
        total = self.count + n
        delta = x.mean(axis=0) - self.mean
        spread = self.var * self.count + x.var(axis=0, unbiased=False) * n
        spread = spread + delta.square() * (self.count * n / total)
        self.mean.set_value(self.mean + delta * (n / total))
        self.var.set_value(spread / total)
        self.count.set_value(total)


def dense(n_in, n_out, gain):
    weight = paddle.ParamAttr(initializer=nn.initializer.Orthogonal(gain))
    return nn.Linear(n_in, n_out, weight_attr=weight, bias_attr=nn.initializer.Constant(0.1))


class Policy(nn.Layer):
    def __init__(self, hidden=16):
        super().__init__()
        self.filter = ObservationFilter(FEATURES)
        self.fc1 = dense(FEATURES, hidden, 2**0.5)
        self.fc2 = dense(hidden, hidden, 2**0.5)
        self.critic = dense(hidden, 1, 1.0)
        self.actor = dense(hidden, ACTIONS, 0.01)

    def forward(self, obs, legal):
        h = paddle.tanh(self.fc1(self.filter(obs)))
        h = paddle.tanh(self.fc2(h))
        scores = self.actor(h)
        scores = paddle.where(legal, scores, paddle.full_like(scores, -1e8))
        return scores, self.critic(h)[:, 0]
