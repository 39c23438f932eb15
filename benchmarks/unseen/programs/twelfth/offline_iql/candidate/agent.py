import math

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn import initializer as I

from hyper import HYPER


def layer(cin, cout, gain=2 ** 0.5, bound=None):
    """Orthogonal with zero biases, or (with a bound) uniform throughout."""
    if bound is not None:
        return nn.Linear(cin, cout, weight_attr=I.Uniform(-bound, bound), bias_attr=I.Uniform(-bound, bound))
    return nn.Linear(cin, cout, weight_attr=I.Orthogonal(gain=gain), bias_attr=I.Constant(0.0))


class Critic(nn.Layer):
    """One Q function; the first hidden layer is normalised."""

    def __init__(self, cin, widths):
        super().__init__()
        a, b = widths
        self.fc1 = layer(cin, a)
        self.norm = nn.LayerNorm(a)
        self.fc2 = layer(a, b)
        self.out = layer(b, 1, bound=3e-3)

    def forward(self, x):
        x = F.relu(self.norm(self.fc1(x)))
        return self.out(F.relu(self.fc2(x))).squeeze(-1)


class Twin(nn.Layer):
    def __init__(self, cin, widths):
        super().__init__()
        self.first = Critic(cin, widths)
        self.second = Critic(cin, widths)

    def forward(self, obs, act):
        x = paddle.concat([obs, act], axis=-1)
        return paddle.stack([self.first(x), self.second(x)], axis=1)


class Policy(nn.Layer):
    def __init__(self, cin, cout, widths, low, high):
        super().__init__()
        a, b = widths
        self.body = nn.Sequential(layer(cin, a), nn.Silu(), layer(a, b), nn.Silu())
        self.head = layer(b, cout, gain=0.01)
        self.log_std = self.create_parameter([cout], default_initializer=I.Constant(-0.5))
        self.low, self.high = low, high

    def forward(self, obs):
        return F.tanh(self.head(self.body(obs)))

    def evaluate(self, obs, act):
        mean = self(obs)
        log_std = paddle.clip(self.log_std, self.low, self.high)
        density = -((act - mean) ** 2) / (2 * paddle.exp(2 * log_std)) - log_std - 0.5 * math.log(2 * math.pi)
        return mean, density.sum(axis=-1)


class ActorCritic(nn.Layer):
    def __init__(self, hp=HYPER):
        super().__init__()
        self.critic = Twin(hp.obs + hp.act, hp.critic_widths)
        self.slow = Twin(hp.obs + hp.act, hp.critic_widths)
        self.slow.set_state_dict(self.critic.state_dict())
        for p in self.slow.parameters():
            p.stop_gradient = True
        a, b = hp.critic_widths
        self.value = nn.Sequential(layer(hp.obs, a), nn.ReLU(), layer(a, b), nn.ReLU(), layer(b, 1))
        self.policy = Policy(hp.obs, hp.act, hp.actor_widths, hp.log_std_min, hp.log_std_max)

    def state_value(self, obs):
        return self.value(obs)[:, 0]

    def forward(self, obs, act, next_obs):
        mean, log_prob = self.policy.evaluate(obs, act)
        out = {"q": self.critic(obs, act), "v": self.state_value(obs), "mean": mean, "log_prob": log_prob}
        with paddle.no_grad():
            out["target_q"] = self.slow(obs, act).min(axis=1)
            out["next_v"] = self.state_value(next_obs)
        return out

    @paddle.no_grad()
    def track(self, tau):
        fast = dict(self.critic.named_parameters())
        for name, p in self.slow.named_parameters():
            p.set_value((1 - tau) * p + tau * fast[name])
