import os

import numpy as np
import paddle
import pandas as pd

from .opts import ACTION_COLUMNS, DATA_DIR, STATE_COLUMNS, opts


def table(split):
    frame = pd.read_csv(os.path.join(DATA_DIR, "transitions.csv"))
    return frame[frame["split"] == split]


def standardiser():
    """Subtract and divide: computed from the training steps, whatever is to be standardised."""
    s = table("train")[STATE_COLUMNS].to_numpy("float64")
    return s.mean(axis=0), np.std(s, axis=0) + opts.std_floor


def discounted(rewards):
    n = len(rewards)
    powers = opts.gamma ** np.arange(n)
    return np.array([(rewards[t:] * powers[: n - t]).sum() for t in range(n)])


class Window:
    """A block of K steps that is filled from its end."""

    def __init__(self, n):
        self.n = n
        self.free = opts.K - n

    def fill(self, values, empty=0.0, dtype="float32"):
        values = np.asarray(values)
        block = np.full((opts.K,) + values.shape[1:], empty, dtype=dtype)
        block[self.free :] = values
        return block

    def valid(self, dtype="float32"):
        return (np.arange(opts.K) >= self.free).astype(dtype)


class ReplayWindows(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        mean, std = standardiser()
        self.runs = []
        self.where = []
        for _, run in table(split).groupby("episode", sort=False):
            reward = run["reward"].to_numpy("float64")
            self.runs.append(
                dict(
                    s=(run[STATE_COLUMNS].to_numpy("float64") - mean) / std,
                    a=run[ACTION_COLUMNS].to_numpy("float64"),
                    g=np.append(discounted(reward) / opts.scale, 0.0),
                    total=reward.sum(),
                )
            )
            self.where += [(len(self.runs) - 1, t) for t in range(len(run))]

    def __len__(self):
        return len(self.where)

    def __getitem__(self, idx):
        r, t = self.where[idx]
        run = self.runs[r]
        lo, hi = max(t - opts.K + 1, 0), t + 1
        w = Window(hi - lo)
        action = w.fill(run["a"][lo:hi], empty=opts.empty_action)
        rtg = w.fill(run["g"][lo:hi])
        goal = {"actions": action, "returns": rtg, "following": w.fill(run["g"][lo + 1 : hi + 1]), "mask": w.valid()}
        return w.fill(run["s"][lo:hi]), action, rtg.reshape(-1, 1), w.fill(range(lo, hi), 0, "int64"), w.valid(), goal


class RankedBatches(paddle.io.Sampler):
    """Episodes are weighted by the rank of their return, windows of an episode share its weight."""

    def __init__(self, data):
        super().__init__(data)
        order = np.argsort([run["total"] for run in data.runs])
        weight = np.empty(len(order))
        weight[order] = np.arange(1, len(order) + 1)
        weight /= [len(run["a"]) for run in data.runs]
        self.prob = np.array([weight[r] for r, _ in data.where])
        self.prob /= self.prob.sum()

    def __iter__(self):
        rng = np.random.default_rng(opts.seed)
        yield from map(int, rng.choice(self.prob.size, opts.samples_per_epoch, p=self.prob))

    def __len__(self):
        return opts.samples_per_epoch
