import csv
from collections import defaultdict

import numpy as np
from torch.utils.data import Dataset, Sampler

from .config import DATA

STATE = ("x", "y", "vx", "vy", "goal")
ACTION = ("ax", "ay")


def load_episodes(split):
    """A list of dicts of arrays, one per episode, in the order of the file."""
    episodes = defaultdict(list)
    with open(DATA / "transitions.csv", newline="") as f:
        for row in csv.DictReader(f):
            if row["split"] == split:
                episodes[int(row["episode"])].append(row)
    return [
        {
            "states": np.array([[float(row[k]) for k in STATE] for row in rows]),
            "actions": np.array([[float(row[k]) for k in ACTION] for row in rows]),
            "rewards": np.array([float(row["reward"]) for row in rows]),
        }
        for rows in episodes.values()
    ]


def returns_to_go(rewards, discount):
    out = np.zeros_like(rewards)
    running = 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + discount * running
        out[t] = running
    return out


def state_statistics(eps):
    states = np.concatenate([e["states"] for e in load_episodes("train")])
    return states.mean(0), states.std(0) + eps


def pad_left(array, length, value=0.0):
    padding = np.full((length - len(array), *array.shape[1:]), value, dtype=array.dtype)
    return np.concatenate([padding, array])


class TrajectoryWindows(Dataset):
    """Every step of every episode with the context before it."""

    def __init__(self, split, d):
        self.d = d
        self.episodes = load_episodes(split)
        self.mean, self.std = state_statistics(d.state_eps)
        for e in self.episodes:
            e["returns"] = returns_to_go(e["rewards"], d.discount) / d.return_scale
        self.index = [(i, end) for i, e in enumerate(self.episodes) for end in range(1, len(e["states"]) + 1)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        d = self.d
        i, end = self.index[k]
        start = max(0, end - d.context)
        e = self.episodes[i]
        states = pad_left((e["states"][start:end] - self.mean) / self.std, d.context)
        actions = pad_left(e["actions"][start:end], d.context, d.action_pad)
        returns = pad_left(e["returns"][start:end], d.context)
        following = np.append(e["returns"], 0.0)[start + 1 : end + 1]
        times = pad_left(np.arange(start, end), d.context, 0)
        mask = pad_left(np.ones(end - start), d.context)
        target = {
            "actions": actions.astype(np.float32),
            "returns": returns.astype(np.float32),
            "following": pad_left(following, d.context).astype(np.float32),
            "mask": mask.astype(np.float32),
        }
        return (
            states.astype(np.float32),
            actions.astype(np.float32),
            returns[:, None].astype(np.float32),
            times,
            mask.astype(np.float32),
            target,
        )


class ReturnSampler(Sampler):
    """Draws windows with replacement, those of better episodes more often."""

    def __init__(self, dataset, draws, seed):
        total = np.array([e["rewards"].sum() for e in dataset.episodes])
        rank = total.argsort().argsort()
        weights = np.array([(1.0 + rank[i]) / len(dataset.episodes[i]["states"]) for i, _ in dataset.index])
        self.p = weights / weights.sum()
        self.draws, self.seed = draws, seed

    def __iter__(self):
        return iter(np.random.default_rng(self.seed).choice(len(self.p), self.draws, p=self.p).tolist())

    def __len__(self):
        return self.draws
