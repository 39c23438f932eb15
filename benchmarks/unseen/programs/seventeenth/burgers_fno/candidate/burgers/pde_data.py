import csv
import os

import numpy as np
import paddle

from . import CFG, DATA


def read(split):
    """All trajectories of a split that were not rejected, and their viscosities."""
    numbers, nu = [], []
    with open(os.path.join(DATA, "cases.csv"), newline="") as f:
        for line in csv.DictReader(f):
            if line["split"] != split or int(line["rejected"]):
                continue
            numbers.append(int(line["row"]))
            nu.append(line["viscosity"])
    return np.load(os.path.join(DATA, "burgers_%s.npy" % split))[numbers], np.array(nu, dtype="float64")


class Scaling:
    """What brings fields and viscosities to the network's range; all of it from the training split."""

    TINY = 1e-5

    def __init__(self):
        u, nu = read(CFG["data"]["train"])
        self.source = self.moments(u[:, :-1])
        self.goal = self.moments(u[:, 1:])
        self.nu_span = np.log(nu).min(), np.log(nu).max()

    @classmethod
    def moments(cls, u):
        u = u.reshape(-1, u.shape[-1]).astype("float64")
        return u.mean(axis=0), u.std(axis=0, ddof=1) + cls.TINY

    def pack(self, u):
        mean, std = self._as(self.source, u)
        return (u - mean) / std

    def unpack(self, y):
        mean, std = self._as(self.goal, y)
        return y * std + mean

    def pack_nu(self, nu):
        low, high = self.nu_span
        return 2 * (np.log(nu) - low) / (high - low) - 1

    @staticmethod
    def _as(pair, like):
        if isinstance(like, np.ndarray):
            return [part.astype(like.dtype) for part in pair]
        return [paddle.to_tensor(part).astype(like.dtype) for part in pair]


SCALING = Scaling()


class Steps(paddle.io.Dataset):
    """Windows of three times: what goes in, what comes next, and what comes then."""

    def __init__(self, split):
        self.u, self.nu = read(split)
        self.moved = split == CFG["data"]["train"]
        self.per_case = self.u.shape[1] - 2

    def __len__(self):
        return self.u.shape[0] * self.per_case

    def __getitem__(self, i):
        run, t = i // self.per_case, i % self.per_case
        three = self.u[run, t : t + 3]
        if self.moved:
            rng = np.random.default_rng([CFG["data"]["seed"], i])
            three = np.roll(three, rng.integers(three.shape[1]), axis=1)
            if rng.random() < 0.5:
                three = -three[:, ::-1]
        three = np.ascontiguousarray(three)
        nu = np.float32(SCALING.pack_nu(self.nu[run]))
        return SCALING.pack(three[0]), nu, {"next": three[1], "second": three[2]}


def batches(split):
    """Indices of each batch. In training, the times take turns within the order."""
    data, size = Steps(split), CFG["data"]["batch"]
    if not data.moved:
        return data, paddle.io.BatchSampler(data, batch_size=size)
    rng = np.random.default_rng(CFG["data"]["seed"])
    order = np.empty(len(data), dtype="int64")
    for t in range(data.per_case):
        order[t :: data.per_case] = rng.permutation(len(data.u)) * data.per_case + t
    full = len(order) // size
    return data, order[: full * size].reshape(full, size).tolist()
