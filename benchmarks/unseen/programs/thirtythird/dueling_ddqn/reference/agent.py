"""Dueling double DQN (Wang et al., 2016) on a logged replay memory, n-step returns."""
import copy
import json
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Config:
    n_obs: int = 6
    n_act: int = 4
    width: int = 48
    gamma: float = 0.95
    n_step: int = 3
    tau: float = 0.02
    lr: float = 2e-3
    batch: int = 9
    steps: int = 14
    alpha: float = 0.6


cfg = Config()


class Replay(Dataset):
    """Items: obs, obs n steps later, {action, return over n steps, discount of the bootstrap}."""

    def __init__(self, split):
        z = np.load(os.path.join(HERE, "..", "data", split + ".npz"))
        self.obs, self.act, self.rew, self.end = z["obs"], z["act"], z["rew"], z["end"]

    def __len__(self):
        return len(self.obs)

    def __getitem__(self, i):
        ret, disc, j = 0.0, 1.0, i
        for _ in range(cfg.n_step):
            ret += disc * float(self.rew[j])
            disc *= cfg.gamma
            if self.end[j]:
                disc = 0.0
                break
            j += 1
        nxt = self.obs[j]
        return (torch.from_numpy(self.obs[i]), torch.from_numpy(nxt),
                {"action": int(self.act[i]), "ret": torch.tensor(ret, dtype=torch.float32),
                 "disc": torch.tensor(disc, dtype=torch.float32)})


def layer(i, o, gain=2 ** 0.5):
    m = nn.Linear(i, o)
    nn.init.orthogonal_(m.weight, gain)
    nn.init.zeros_(m.bias)
    return m


class Dueling(nn.Module):
    def __init__(self, n_obs, n_act, w):
        super().__init__()
        self.body = nn.Sequential(layer(n_obs, w), nn.ELU(), layer(w, w), nn.ELU())
        self.value = nn.Sequential(layer(w, w // 2), nn.ELU(), layer(w // 2, 1, 1.0))
        self.advantage = nn.Sequential(layer(w, w // 2), nn.ELU(), layer(w // 2, n_act, 0.01))

    def forward(self, x):
        h = self.body(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.online = Dueling(cfg.n_obs, cfg.n_act, cfg.width)
        self.target = copy.deepcopy(self.online)
        self.target.requires_grad_(False)

    def norm(self, x):
        return ((x - self.mean) / (self.std + 1e-6)).clamp(-4, 4)

    def forward(self, obs, nxt):
        q = self.online(self.norm(obs))
        with torch.no_grad():
            n = self.norm(nxt)
            best = self.online(n).argmax(1, keepdim=True)
            boot = self.target(n).gather(1, best).squeeze(1)
        return {"q": q, "boot": boot}

    @torch.no_grad()
    def soft_update(self, tau):
        for p, t in zip(self.online.parameters(), self.target.parameters()):
            t.lerp_(p, tau)


def build_model():
    obs = torch.from_numpy(Replay("train").obs)
    return Agent(obs.mean(0), obs.std(0))


def build_dataset(split):
    return Replay(split)


def build_dataloader(split):
    ds = build_dataset(split)
    if split != "train":
        return DataLoader(ds, cfg.batch)
    w = (np.abs(ds.rew) + 0.05) ** cfg.alpha
    return DataLoader(ds, cfg.batch, sampler=WeightedRandomSampler(w.tolist(), cfg.batch * cfg.steps))


def td(outputs, labels):
    q = outputs["q"].gather(1, labels["action"].unsqueeze(1)).squeeze(1)
    return q, labels["ret"] + labels["disc"] * outputs["boot"]


def loss(outputs, labels):
    q, y = td(outputs, labels)
    huber = F.huber_loss(q, y, delta=0.5)
    # conservative term (CQL)
    gap = (outputs["q"].logsumexp(1) - q).mean()
    return {"loss": huber + 0.1 * gap, "huber": huber, "gap": gap}


def metric(outputs, labels):
    q, y = td(outputs, labels)
    agree = (outputs["q"].argmax(1) == labels["action"]).float().mean()
    return {"td_mae": (q - y).abs().mean().item(), "agree": agree.item(), "q_max": outputs["q"].max().item()}


def build_optimizer(model):
    return torch.optim.Adam(model.online.parameters(), lr=cfg.lr, eps=1e-5)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=90)


def train_step(model, optimizer, batch):
    model.train()
    obs, nxt, labels = batch
    out = loss(model(obs, nxt), labels)
    optimizer.zero_grad()
    out["loss"].backward()
    nn.utils.clip_grad_value_(model.online.parameters(), 0.05)
    optimizer.step()
    model.soft_update(cfg.tau)
    return {k: v.item() for k, v in out.items()}


@torch.no_grad()
def predict(path, model):
    with open(path) as fh:
        d = json.load(fh)
    model.eval()
    q = model.online(model.norm(torch.tensor(d["obs"])))
    legal = torch.tensor(d["legal"])
    legal[~legal.any(1)] = True
    best = q.masked_fill(~legal, float("-inf")).argmax(1)
    return {"q": q.numpy(), "action": best.numpy()}
