import csv
from functools import lru_cache

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from settings import DATA, SETTINGS


def table(split):
    with open(DATA / "index.csv") as f:
        found = {r["scene"]: float(r["gap"]) for r in csv.DictReader(f) if r["split"] == split}
    return dict(sorted(found.items()))


@lru_cache(maxsize=None)
def statistics():
    stack = np.concatenate([np.load(DATA / "pairs" / (s + ".npy")) for s in table("train")])
    stack = stack[:, :4].astype("float64")
    dev = stack.std(axis=0)
    return dev[:3].mean(), stack[:, 3].mean(), dev[3]


def closest(cloud, count):
    order = np.argsort((cloud[:, :3] ** 2).sum(1), kind="stable")
    return cloud[order[:count]]


def prepare(raw, gap):
    """Raw columns: source xyz and intensity, target xyz and intensity, flow, validity."""
    cfg = SETTINGS["data"]
    scale, mean, dev = statistics()
    raw = raw.astype("float64")
    left = np.concatenate([raw[:, :4], raw[:, 8:]], axis=1)
    left = closest(left[left[:, 2] >= cfg["ground"]], cfg["points"])
    right = closest(raw[:, 4:8], cfg["points"])
    centre = np.median(left[:, :3], axis=0)
    out = {"flow": left[:, 4:7] / (10 * gap * scale), "valid": left[:, 7]}
    for name, cloud in (("source", left), ("target", right)):
        cloud = cloud[:, :4].copy()
        cloud[:, :3] = (cloud[:, :3] - centre) / scale
        cloud[:, 3] = (cloud[:, 3] - mean) / dev
        out[name] = cloud
    return {k: v.astype("float32") for k, v in out.items()}


class Scenes(Dataset):
    def __init__(self, split):
        super().__init__()
        self.mirror = split == "train"
        self.items = list(table(split).items())

    def __getitem__(self, i):
        scene, gap = self.items[i]
        item = prepare(np.load(DATA / "pairs" / (scene + ".npy")), gap)
        if self.mirror and i % 2:
            for key in ("source", "target", "flow"):
                item[key][:, 1] = -item[key][:, 1]
        return {"source": item["source"], "target": item["target"], "labels": item}

    def __len__(self):
        return len(self.items)


def loader(split):
    scenes = Scenes(split)
    batches = BatchSampler(scenes, shuffle=False, batch_size=SETTINGS["data"]["batch"][split], drop_last=scenes.mirror)
    return DataLoader(scenes, batch_sampler=batches)
