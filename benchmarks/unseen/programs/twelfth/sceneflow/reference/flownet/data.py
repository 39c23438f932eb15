import csv

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .config import CONFIG


def read_index(folder, split):
    with open(folder / "index.csv", newline="") as f:
        rows = [row for row in csv.DictReader(f) if row["split"] == split]
    return sorted(rows, key=lambda row: row["scene"])


def training_scale(folder):
    """Deviation of each axis and mean and deviation of the intensity, over the training scenes."""
    clouds = [np.load(folder / "pairs" / f"{r['scene']}.npy")[:, :4] for r in read_index(folder, "train")]
    values = np.concatenate(clouds).astype(np.float64)
    return {
        "position": float(values[:, :3].std(0).mean()),
        "mean": float(values[:, 3].mean()),
        "std": float(values[:, 3].std()),
    }


class SceneFlowPairs(Dataset):
    def __init__(self, split, cfg=CONFIG.data):
        self.cfg = cfg
        self.split = split
        self.rows = read_index(cfg.folder, split)
        self.scale = training_scale(cfg.folder)

    def __len__(self):
        return len(self.rows)

    def load(self, path, gap):
        raw = np.load(path).astype(np.float64)
        return self.prepare(raw, gap)

    def prepare(self, raw, gap):
        s = self.scale
        source, target = raw[:, :4], raw[:, 4:8]
        flow, valid = raw[:, 8:11], raw[:, 11]
        keep = np.nonzero(source[:, 2] >= self.cfg.ground)[0]
        near = np.argsort(np.linalg.norm(source[keep, :3], axis=1), kind="stable")[: self.cfg.points]
        keep = keep[near]
        source, flow, valid = source[keep], flow[keep], valid[keep]
        near = np.argsort(np.linalg.norm(target[:, :3], axis=1), kind="stable")[: self.cfg.points]
        target = target[near]
        centre = np.median(source[:, :3], axis=0)
        flow = flow / (gap * 10) / s["position"]             # per tenth of a second

        def normalise(cloud):
            xyz = (cloud[:, :3] - centre) / s["position"]
            return np.concatenate([xyz, (cloud[:, 3:] - s["mean"]) / s["std"]], 1).astype(np.float32)

        return normalise(source), normalise(target), flow.astype(np.float32), valid.astype(np.float32)

    def __getitem__(self, i):
        row = self.rows[i]
        path = self.cfg.folder / "pairs" / f"{row['scene']}.npy"
        source, target, flow, valid = self.load(path, float(row["gap"]))
        if self.split == "train" and i % 2 == 1:             # every other training scene is mirrored
            for array in (source, target, flow):
                array[:, 1] *= -1
        return {
            "source": source,
            "target": target,
            "labels": {"source": source, "target": target, "flow": flow, "valid": valid},
        }


def make_loader(split, cfg=CONFIG.data):
    train = split == "train"
    return DataLoader(
        SceneFlowPairs(split, cfg),
        batch_size=cfg.batch_train if train else cfg.batch_eval,
        shuffle=False,
        drop_last=train,
    )
