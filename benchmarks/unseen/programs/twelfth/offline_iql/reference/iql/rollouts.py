import csv
import json
from collections import defaultdict

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from . import settings


def episodes(path=settings.DATA / "rollouts.csv"):
    found = defaultdict(list)
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            found[int(row["episode"])].append(row)
    return {
        e: {
            "obs": np.array([[float(r[f"o{i}"]) for i in range(5)] for r in rows]),
            "act": np.array([[float(r[f"a{i}"]) for i in range(2)] for r in rows]),
            "reward": np.array([float(r["reward"]) for r in rows]),
            "terminal": np.array([int(r["terminal"]) for r in rows]),
            "timeout": np.array([int(r["timeout"]) for r in rows]),
        }
        for e, rows in found.items()
    }


def split_ids(split):
    return json.loads((settings.DATA / "split.json").read_text())[split]


class Normaliser:
    """Of the training episodes: mean and deviation of observations, spread of returns."""

    def __init__(self, eps=settings.data["obs_eps"], scale=settings.data["reward_scale"]):
        every = episodes()
        train = [every[e] for e in split_ids("train")]
        obs = np.concatenate([t["obs"] for t in train])
        self.mean, self.std = obs.mean(0), obs.std(0) + eps
        returns = [t["reward"].sum() for t in train]
        self.reward = scale / (max(returns) - min(returns))

    def __call__(self, obs):
        return (obs - self.mean) / self.std


def returns_to_go(rewards, gamma):
    out, running = np.zeros_like(rewards), 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + gamma * running
        out[t] = running
    return out


class Transitions(Dataset):
    """(obs, action, next obs, [reward, done, return to go]); where time ran out there is no next one."""

    def __init__(self, split, gamma=settings.algorithm["gamma"]):
        norm, every = Normaliser(), episodes()
        rows = []
        for e in split_ids(split):
            t = every[e]
            obs, reward = norm(t["obs"]), t["reward"] * norm.reward
            togo = returns_to_go(reward, gamma)
            following = np.concatenate([obs[1:], obs[-1:]])
            for i in range(len(obs)):
                if t["timeout"][i]:
                    continue
                rows.append((obs[i], t["act"][i].clip(-0.995, 0.995), following[i],
                             np.array([reward[i], t["terminal"][i], togo[i]])))
        self.rows = [tuple(x.astype(np.float32) for x in row) for row in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return tuple(torch.from_numpy(x) for x in self.rows[i])


def loader(split):
    return DataLoader(Transitions(split), batch_size=settings.data["batch_size"], drop_last=split == "train")
