import csv
import os

import numpy as np
import paddle

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
SIZE = 32


class Degrade:
    """Blur, halve, add the plate's own noise."""

    kernel = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256.0

    def __call__(self, sample):
        img = sample["clean"]
        padded = np.pad(img, [(2, 2), (2, 2), (0, 0)], "reflect")
        soft = np.zeros_like(img)
        for dy in range(5):
            for dx in range(5):
                soft += self.kernel[dy, dx] * padded[dy:dy + SIZE, dx:dx + SIZE]
        low = (soft[0::2, 0::2] + soft[1::2, 0::2] + soft[0::2, 1::2] + soft[1::2, 1::2]) / 4.0
        rng = np.random.RandomState(100 + sample["id"])
        sample["low"] = np.clip(low + sample["sigma"] * rng.randn(*low.shape), 0, 1)
        return sample


class SeamMask:
    def __call__(self, sample):
        mask = np.ones([SIZE, SIZE, 1])
        begin, end = sample["seam"]
        mask[:, begin:end] = 0.0
        sample["target"] = np.concatenate([sample["clean"], mask], axis=2)
        return sample


class RandomDihedral:
    def __call__(self, sample):
        flip = np.random.rand() < 0.5
        turns = np.random.randint(4)
        for key in ("low", "target"):
            img = np.flip(sample[key], axis=1) if flip else sample[key]
            sample[key] = np.rot90(img, turns)
        return sample


class ToArrays:
    def __call__(self, sample):
        chw = [np.ascontiguousarray(np.moveaxis(sample[k], -1, 0)).astype("float32") for k in ("low", "target")]
        return tuple(chw)


class PlateSet(paddle.io.Dataset):
    def __init__(self, mode="train"):
        super().__init__()
        self.images = np.load(os.path.join(FOLDER, "plates.npz"))["plates"]
        with open(os.path.join(FOLDER, "plates.csv"), newline="") as f:
            self.table = [row for row in csv.DictReader(f) if row["split"] == mode]
        self.pipeline = [Degrade(), SeamMask()]
        if mode == "train":
            self.pipeline.append(RandomDihedral())
        self.pipeline.append(ToArrays())

    def __getitem__(self, idx):
        row = self.table[idx]
        number, y, x = (int(row[k]) for k in ("row", "top", "left"))
        clean = self.images[number][y:y + SIZE, x:x + SIZE].astype("float64") / 255.0
        sample = dict(id=number, clean=clean, sigma=float(row["noise"]), seam=(int(row["seam_from"]), int(row["seam_to"])))
        for op in self.pipeline:
            sample = op(sample)
        return sample

    def __len__(self):
        return len(self.table)


def plate_loader(mode, batch_size=4):
    train = mode == "train"
    return paddle.io.DataLoader(PlateSet(mode), batch_size=batch_size, shuffle=train, drop_last=train)
