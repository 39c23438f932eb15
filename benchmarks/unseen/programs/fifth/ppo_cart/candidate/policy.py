import math

import numpy as np
import paddle
from paddle import nn
import paddle.nn.functional as F


def dense(n_in, n_out, gain=math.sqrt(2.0)):
    return nn.Linear(n_in, n_out,
                     weight_attr=paddle.ParamAttr(initializer=nn.initializer.Orthogonal(gain)),
                     bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.0)))


class Policy(nn.Layer):
    """Masked categorical actor and a critic on one trunk; observations are whitened inside."""

    def __init__(self, obs_dim=5, n_actions=4, width=32, clip=5.0):
        super().__init__()
        self.clip = clip
        self.register_buffer("running_mean", paddle.zeros([obs_dim]))
        self.register_buffer("running_var", paddle.ones([obs_dim]))
        self.register_buffer("seen", paddle.full([], 10.0))
        self.fc1 = dense(obs_dim, width)
        self.fc2 = dense(width, width)
        self.post = nn.LayerNorm(width, epsilon=1e-5)
        self.actor = dense(width, n_actions, 0.01)
        self.critic_in = dense(width, width)
        self.critic_out = dense(width, 1, 1.0)

    def _absorb(self, obs):
        with paddle.no_grad():
            n = float(obs.shape[0])
            mu, var = obs.mean(0), obs.var(0, unbiased=False)
            gap = mu - self.running_mean
            total = self.seen + n
            spread = self.running_var * self.seen + var * n + gap.square() * self.seen * n / total
            self.running_mean.set_value(self.running_mean + gap * (n / total))
            self.running_var.set_value(spread / total)
            self.seen.set_value(total)

    def whiten(self, obs):
        if self.training:
            self._absorb(obs)
        z = (obs - self.running_mean) * paddle.rsqrt(self.running_var + 1e-4)
        return paddle.clip(z, -self.clip, self.clip)

    def forward(self, obs, legal):
        h = F.tanh(self.fc1(self.whiten(obs)))
        h = self.post(F.tanh(self.fc2(h)))
        raw = self.actor(h)
        logits = paddle.where(legal > 0.5, raw, paddle.full_like(raw, -1e8))
        value = self.critic_out(F.leaky_relu(self.critic_in(h), 0.01))[:, 0]
        return {"logits": logits, "value": value}

    @paddle.no_grad()
    def choose(self, obs, legal, rng):
        out = self.forward(paddle.to_tensor(obs[None]), paddle.to_tensor(legal[None]))
        logp = F.log_softmax(out["logits"], axis=-1).numpy()[0]
        pick = int(np.argmax(logp + rng.gumbel(size=logp.shape)))
        return pick, float(logp[pick]), float(out["value"][0])
