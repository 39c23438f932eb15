import os

import numpy as np
import paddle

from wear_config import DATA, cfg


def table():
    rows = np.genfromtxt(os.path.join(DATA, "runs.csv"), delimiter=",", names=True, dtype=None, encoding="utf-8")
    return rows, np.load(os.path.join(DATA, "windows.npy"))


def grades(um):
    return np.searchsorted(np.array(cfg.limits.um), um, side="right")


class Scaler:
    def __init__(self):
        rows, x = table()
        keep = ~np.isin(rows["tool"], cfg.data.held_out)
        axis = np.moveaxis(x[keep].astype("float64"), 1, 0).reshape(3, -1)
        low, self.middle, high = (np.quantile(axis, q, axis=1, keepdims=True) for q in (0.25, 0.5, 0.75))
        self.range = high - low
        cut = self.raw_cut(rows["speed"][keep], rows["feed"][keep])
        self.cut_mean, self.cut_std = cut.mean(axis=0), cut.std(axis=0, ddof=1)

    @staticmethod
    def raw_cut(speed, feed):
        return np.stack([np.log(np.asarray(speed, "float64")), np.asarray(feed, "float64")], axis=-1)

    def signal(self, x):
        z = (x.astype("float64") - self.middle) / self.range
        return np.clip(z, -cfg.data.clip, cfg.data.clip).astype("float32")

    def cutting(self, speed, feed):
        return ((self.raw_cut(speed, feed) - self.cut_mean) / self.cut_std).astype("float32")


class VibrationWindows(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        rows, x = table()
        held = np.isin(rows["tool"], cfg.data.held_out)
        mine = held if split == "val" else ~held
        rows, x = rows[mine], x[mine]
        if split == "train":
            back = rows["run"] % 3 == 1
            x[back] = x[back][..., ::-1]
        scaler = Scaler()
        self.x = scaler.signal(x)
        self.cut = scaler.cutting(rows["speed"], rows["feed"])
        self.material = np.array([cfg.data.materials.index(m) for m in rows["material"]], "int64")
        self.grade = grades(rows["wear_um"]).astype("int64")
        self.wear = (rows["wear_um"] / 100).astype("float32")

    def __getitem__(self, i):
        return self.x[i], self.cut[i], self.material[i], {"grade": self.grade[i], "wear": self.wear[i]}

    def __len__(self):
        return len(self.grade)


class GradeDealer(paddle.io.BatchSampler):
    """Deals the windows, sorted by grade, into the batches of a pass."""

    def __init__(self, grade):
        self.grade, self.turn = grade, 0

    def __len__(self):
        return int(np.ceil(len(self.grade) / cfg.data.batch))

    def __iter__(self):
        rng = np.random.RandomState(cfg.data.order_seed + self.turn)
        self.turn += 1
        tie = rng.permutation(len(self.grade))
        ranked = np.lexsort((tie, self.grade))
        for k in rng.permutation(len(self)):
            yield ranked[k::len(self)].tolist()
