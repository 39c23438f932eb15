import numpy as np
import torch
import torch.nn as nn


def ortho(layer, gain=np.sqrt(2)):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class RunningNorm(nn.Module):
    def __init__(self, dim, clip, eps=1e-4):
        super().__init__()
        self.clip, self.eps = clip, eps
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.register_buffer("count", torch.tensor(10.0))

    @torch.no_grad()
    def track(self, x):
        b_mean, b_var, b_n = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        delta, tot = b_mean - self.running_mean, self.count + b_n
        m2 = self.running_var * self.count + b_var * b_n + delta ** 2 * self.count * b_n / tot
        self.running_mean += delta * b_n / tot
        self.running_var.copy_(m2 / tot)
        self.count.copy_(tot)

    def forward(self, x):
        if self.training:
            self.track(x)
        return ((x - self.running_mean) / torch.sqrt(self.running_var + self.eps)).clamp(-self.clip, self.clip)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden, obs_clip):
        super().__init__()
        self.norm = RunningNorm(obs_dim, obs_clip)
        self.trunk = nn.Sequential(ortho(nn.Linear(obs_dim, hidden)), nn.Tanh(), ortho(nn.Linear(hidden, hidden)), nn.Tanh())
        self.ln = nn.LayerNorm(hidden)
        self.pi = ortho(nn.Linear(hidden, n_actions), 0.01)
        self.v_hidden = ortho(nn.Linear(hidden, hidden))
        self.v = ortho(nn.Linear(hidden, 1), 1.0)

    def forward(self, obs, legal):
        h = self.ln(self.trunk(self.norm(obs)))
        logits = self.pi(h).masked_fill(legal < 0.5, -1e8)
        value = self.v(torch.nn.functional.leaky_relu(self.v_hidden(h), 0.01)).squeeze(-1)
        return {"logits": logits, "value": value}

    @torch.no_grad()
    def act(self, obs, legal, rng):
        out = self(torch.as_tensor(obs)[None], torch.as_tensor(legal)[None])
        logp = torch.log_softmax(out["logits"][0], -1).numpy()
        a = int(np.argmax(logp + rng.gumbel(size=logp.shape)))
        return a, float(logp[a]), float(out["value"][0])
