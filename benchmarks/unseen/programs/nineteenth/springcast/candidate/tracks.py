import os

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler

HERE = os.path.dirname(os.path.abspath(__file__))
SCENES = os.path.join(HERE, os.pardir, "data", "scenes.npz")
HISTORY = 8
HORIZON = 12
UNIT = 2.0
SALT = 31


def recentre(scene):
    visible = scene["seen"][HISTORY - 1]
    origin = np.zeros(2, dtype="float32")
    if visible.any():
        origin = scene["pos"][HISTORY - 1, visible].mean(axis=0)
    return dict(scene, pos=scene["pos"] - origin, origin=origin)


def spin(scene):
    theta = np.random.RandomState(SALT + scene["id"]).uniform(-np.pi, np.pi)
    c, s = np.cos(theta), np.sin(theta)
    # rows are points
    turn = np.asarray([[c, s], [-s, c]], dtype="float32")
    return dict(scene, pos=np.matmul(scene["pos"], turn))


def sensor_noise(scene):
    draw = np.random.RandomState(SALT + 7919 + scene["id"])
    past, rest = np.split(scene["pos"], [HISTORY])
    past = past + draw.normal(0.0, 0.02, size=past.shape).astype("float32")
    return dict(scene, pos=np.concatenate([past, rest]))


def to_units(scene):
    return dict(scene, pos=(scene["pos"] / UNIT * scene["seen"][:, :, None]).astype("float32"))


def steps_for(split):
    return [recentre, spin, sensor_noise, to_units] if split == "train" else [recentre, to_units]


def model_inputs(scene):
    return {
        "past": np.ascontiguousarray(scene["pos"][:HISTORY].swapaxes(0, 1)),
        "seen": np.ascontiguousarray(scene["seen"][:HISTORY].T),
        "kind": scene["kind"],
    }


class TrackSet(Dataset):
    def __init__(self, split):
        super().__init__()
        archive = np.load(SCENES)
        held_out = np.arange(archive["pos"].shape[0]) % 5 == 0
        rows = held_out if split == "val" else ~held_out
        self.scenes = [{"id": k, "pos": p, "seen": v, "kind": c} for k, (p, v, c) in enumerate(zip(archive["pos"][rows], archive["seen"][rows], archive["kind"][rows]))]
        self.transforms = steps_for(split)

    def __len__(self):
        return len(self.scenes)

    def __getitem__(self, k):
        scene = self.scenes[k]
        for step in self.transforms:
            scene = step(scene)
        usable = np.logical_and(scene["seen"][HISTORY:], scene["seen"][HISTORY - 1])
        target = np.concatenate([scene["pos"][HISTORY:], usable[:, :, None].astype("float32")], axis=-1)
        return dict(model_inputs(scene), labels=np.ascontiguousarray(target.swapaxes(0, 1)))


class Crowded(Sampler):
    def __init__(self, tracks):
        super().__init__(tracks)
        crowd = np.array([s["seen"][HISTORY - 1].sum() for s in tracks.scenes], dtype="float64") ** 0.5
        self.chance = crowd / crowd.sum()
        self.epoch = 0

    def __len__(self):
        return self.chance.size - self.chance.size % 8

    def __iter__(self):
        picks = np.random.RandomState(SALT + self.epoch).choice(self.chance.size, len(self), replace=True, p=self.chance)
        return map(int, picks)


def loader(split):
    tracks = TrackSet(split)
    if split == "train":
        return DataLoader(tracks, batch_sampler=BatchSampler(sampler=Crowded(tracks), batch_size=8))
    return DataLoader(tracks, batch_size=8)
