import copy
import math

import torch
from torch import nn

from .init import orthogonal_mlp, small_uniform
from .registry import NETWORKS


def mlp(sizes, activation, norm=False):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            if norm and i == 0:
                layers.append(nn.LayerNorm(b))
            layers.append(activation())
    return nn.Sequential(*layers)


@NETWORKS.register("twin_q")
class TwinQ(nn.Module):
    def __init__(self, obs, act, hidden):
        super().__init__()
        self.q1 = mlp((obs + act, *hidden, 1), nn.ReLU, norm=True)
        self.q2 = mlp((obs + act, *hidden, 1), nn.ReLU, norm=True)
        orthogonal_mlp(self)
        for q in (self.q1, self.q2):
            small_uniform(q[-1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return torch.cat([self.q1(x), self.q2(x)], -1)


@NETWORKS.register("value")
class Value(nn.Module):
    def __init__(self, obs, hidden):
        super().__init__()
        self.net = mlp((obs, *hidden, 1), nn.ReLU)
        orthogonal_mlp(self)

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


@NETWORKS.register("gaussian_actor")
class GaussianActor(nn.Module):
    """A Gaussian with a bounded mean; its deviation does not depend on the state."""

    def __init__(self, obs, act, hidden, log_std_range):
        super().__init__()
        self.net = mlp((obs, *hidden, act), nn.SiLU)
        self.log_std = nn.Parameter(torch.full((act,), -0.5))
        self.low, self.high = log_std_range
        orthogonal_mlp(self)
        nn.init.orthogonal_(self.net[-1].weight, 0.01)

    def forward(self, obs):
        return torch.tanh(self.net(obs)), self.log_std.clamp(self.low, self.high)

    def log_prob(self, obs, act):
        mean, log_std = self(obs)
        z = (act - mean) / log_std.exp()
        return mean, (-0.5 * z ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


class Agent(nn.Module):
    def __init__(self, obs, act, critic, value, actor):
        super().__init__()
        self.critic = NETWORKS.build(critic, obs=obs, act=act)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.value = NETWORKS.build(value, obs=obs)
        self.actor = NETWORKS.build(actor, obs=obs, act=act)

    def forward(self, obs, act, next_obs):
        with torch.no_grad():
            target_q = self.target(obs, act).min(-1)[0]
            next_v = self.value(next_obs)
        mean, log_prob = self.actor.log_prob(obs, act)
        return {
            "q": self.critic(obs, act),
            "target_q": target_q,
            "v": self.value(obs),
            "next_v": next_v,
            "mean": mean,
            "log_prob": log_prob,
        }

    @torch.no_grad()
    def follow(self, tau):
        for slow, fast in zip(self.target.parameters(), self.critic.parameters()):
            slow.lerp_(fast, tau)
