"""Recorded rollouts as arrays."""
import json

import numpy as np
from paddle.io import DataLoader, Dataset

from hyper import DATA, HYPER

COLUMNS = {"episode": 0, "obs": slice(2, 7), "act": slice(7, 9), "reward": 9, "terminal": 10, "timeout": 11}


def read(path=DATA / "rollouts.csv"):
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    parts = {}
    for e in np.unique(table[:, 0]).astype(int):
        rows = table[table[:, 0] == e]
        parts[int(e)] = {key: rows[:, where] for key, where in COLUMNS.items()}
    return parts


def members(split):
    with open(DATA / "split.json") as f:
        return json.load(f)[split]


def scaling():
    """Mean and deviation of observations, and the factor of rewards, of the training part."""
    parts = read()
    train = [parts[e] for e in members("train")]
    obs = np.vstack([p["obs"] for p in train])
    totals = np.array([p["reward"].sum() for p in train])
    return obs.mean(axis=0), obs.std(axis=0) + HYPER.obs_eps, HYPER.reward_scale / np.ptp(totals)


def discounted(reward, gamma):
    togo = reward.copy()
    for t in range(len(togo) - 2, -1, -1):
        togo[t] += gamma * togo[t + 1]
    return togo


class Replay(Dataset):
    def __init__(self, split):
        super().__init__()
        mean, std, factor = scaling()
        parts = read()
        columns = [[], [], [], []]
        for e in members(split):
            p = parts[e]
            obs = (p["obs"] - mean) / std
            reward = p["reward"] * factor
            keep = p["timeout"] == 0
            after = np.roll(obs, -1, axis=0)
            after[-1] = obs[-1]
            labels = np.stack([reward, p["terminal"], discounted(reward, HYPER.gamma)], axis=1)
            for column, values in zip(columns, (obs, np.clip(p["act"], -0.995, 0.995), after, labels)):
                column.append(values[keep])
        self.columns = [np.concatenate(c).astype("float32") for c in columns]

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, i):
        return tuple(c[i] for c in self.columns)


def make_loader(split):
    return DataLoader(Replay(split), batch_size=HYPER.batch, shuffle=False, drop_last=(split == "train"))
