"""Actor-critic with clipped objective on recorded rollouts."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT, T, N = 7, 4, 10, 4
GAMMA, LAM = 0.97, 0.9


def rollouts(seed=2):
    g = np.random.RandomState(seed)
    return {
        "obs": g.randn(T, N, OBS) * np.linspace(0.5, 4, OBS) + np.linspace(-2, 3, OBS),
        "act": g.randint(0, ACT, (T, N)),
        "legal": np.maximum(g.rand(T, N, ACT) < 0.8, np.eye(ACT)[g.randint(0, ACT, (T, N))] > 0),
        "rew": g.randn(T, N) * 3,
        "done": g.rand(T, N) < 0.15,
        "val": g.randn(T + 1, N) * 0.5,
        "logp": np.log(g.rand(T, N) * 0.5 + 0.2),
    }


def gae(r):
    rew = np.clip(r["rew"], -5, 5)
    adv = np.zeros((T, N))
    last = np.zeros(N)
    for t in reversed(range(T)):
        nonterminal = 1.0 - r["done"][t]
        delta = rew[t] + GAMMA * r["val"][t + 1] * nonterminal - r["val"][t]
        last = delta + GAMMA * LAM * nonterminal * last
        adv[t] = last
    return adv, adv + r["val"][:-1]


class Buffer(torch.utils.data.Dataset):
    def __init__(self, split):
        r = rollouts(2 if split == "train" else 3)
        r["act"] = np.where(np.take_along_axis(r["legal"], r["act"][..., None], 2)[..., 0], r["act"], r["legal"].argmax(2))
        adv, ret = gae(r)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        f = lambda a: a.reshape(T * N, *a.shape[2:])
        self.obs, self.legal = f(r["obs"]).astype("float32"), f(r["legal"])
        self.rest = {
            "act": f(r["act"]).astype("int64"),
            "adv": f(adv).astype("float32"),
            "ret": f(ret).astype("float32"),
            "val": f(r["val"][:-1]).astype("float32"),
            "logp": f(r["logp"]).astype("float32"),
        }

    def __len__(self):
        return len(self.obs)

    def __getitem__(self, i):
        return (self.obs[i], self.legal[i]), {k: v[i] for k, v in self.rest.items()}


def build_dataset(split):
    return Buffer(split)


def build_dataloader(split):
    for b, y in torch.utils.data.DataLoader(Buffer(split), batch_size=16, shuffle=False):
        yield b[0], b[1], y


class RunningNorm(nn.Module):
    """normalises observations; batch statistics are merged in training"""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))
        self.register_buffer("count", torch.tensor(1e-4))

    @torch.no_grad()
    def update(self, x):
        m, v, n = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        d = m - self.mean
        tot = self.count + n
        self.var.copy_((self.var * self.count + v * n + d ** 2 * self.count * n / tot) / tot)
        self.mean.add_(d * n / tot)
        self.count.copy_(tot)

    def forward(self, x):
        if self.training:
            self.update(x)
        return torch.clamp((x - self.mean) / torch.sqrt(self.var + 1e-8), -5, 5)


def ortho(layer, gain=np.sqrt(2)):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.constant_(layer.bias, 0.1)
    return layer


class ActorCritic(nn.Module):
    def __init__(self, h=16):
        super().__init__()
        self.norm = RunningNorm(OBS)
        self.shared = nn.Sequential(ortho(nn.Linear(OBS, h)), nn.Tanh(), ortho(nn.Linear(h, h)), nn.Tanh())
        self.pi = ortho(nn.Linear(h, ACT), 0.01)
        self.v = ortho(nn.Linear(h, 1), 1.0)

    def forward(self, obs, legal):
        z = self.shared(self.norm(obs))
        logits = self.pi(z).masked_fill(~legal, -1e8)
        return logits, self.v(z).squeeze(-1)


def build_model():
    torch.manual_seed(1)
    m = ActorCritic()
    m.train()
    with torch.no_grad():
        for b, l, _ in build_dataloader("train"):
            m(torch.as_tensor(b), torch.as_tensor(l))
    return m


def loss(out, y, clip=0.2, vf=0.5, ent=0.01):
    logits, v = out
    dist = torch.distributions.Categorical(logits=logits)
    ratio = torch.exp(dist.log_prob(y["act"]) - y["logp"])
    pg = -torch.min(ratio * y["adv"], torch.clamp(ratio, 1 - clip, 1 + clip) * y["adv"]).mean()
    vc = y["val"] + torch.clamp(v - y["val"], -clip, clip)
    vl = 0.5 * torch.max((v - y["ret"]) ** 2, (vc - y["ret"]) ** 2).mean()
    entropy = dist.entropy().mean()
    return {"loss": pg + vf * vl - ent * entropy, "pg": pg, "vl": vl, "entropy": entropy}


def metric(out, y):
    logits, v = out
    lp = torch.distributions.Categorical(logits=logits).log_prob(y["act"])
    d = lp - y["logp"]
    ev = 1 - torch.var(y["ret"] - v) / torch.var(y["ret"])
    return {
        "approx_kl": (torch.exp(d) - 1 - d).mean().item(),
        "clip_frac": ((d.exp() - 1).abs() > 0.2).float().mean().item(),
        "explained_variance": ev.item(),
    }


class ClippedRMSprop(torch.optim.RMSprop):
    def step(self, closure=None):
        nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.5)
        return super().step(closure)


def build_optimizer(model):
    return ClippedRMSprop(model.parameters(), lr=7e-3, alpha=0.95, eps=1e-5)


def build_scheduler(opt):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda i: max(0.1, 1 - i / 12))
