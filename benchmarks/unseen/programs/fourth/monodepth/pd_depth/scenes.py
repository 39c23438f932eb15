import numpy as np
from paddle.io import Dataset

from .settings import DataConfig


class Pipeline:
    def __init__(self, *steps):
        self.transforms = list(steps)

    def __call__(self, sample):
        for step in self.transforms:
            sample = step(sample)
        return sample


def middle(cfg):
    height, width = cfg.crop

    def crop(sample):
        h, w = sample["image"].shape[:2]
        y, x = (h - height) // 2, (w - width) // 2
        out = dict(sample)
        for name in ("image", "depth"):
            out[name] = sample[name][y:y + height, x:x + width]
        return out
    return crop


def mirror(sample):
    flip = sample["flip"]
    out = {k: v for k, v in sample.items() if k != "flip"}
    if flip:
        out["image"] = np.flip(out["image"], axis=1)
        out["depth"] = np.flip(out["depth"], axis=1)
    return out


def gamma(sample):
    out = {"depth": sample["depth"]}
    unit = sample["image"].astype("float32") / 255.0
    out["image"] = np.power(unit, np.float32(sample["gamma"]))
    return out


def to_chw(cfg):
    mean = np.array(cfg.mean, "float32").reshape(3, 1, 1)
    std = np.array(cfg.std, "float32").reshape(3, 1, 1)

    def convert(sample):
        image = (sample["image"].transpose(2, 0, 1) - mean) / std
        metres = (sample["depth"].astype("float32") * cfg.unit).astype("float32")
        return {"image": image, "depth": metres[np.newaxis]}
    return convert


class Scenes(Dataset):
    def __init__(self, split, cfg=None):
        super().__init__()
        cfg = cfg or DataConfig()
        with np.load(cfg.archive) as z:
            self.images, self.depths = z["rgb"], z["depth"]
        with open(f"{split}.txt") as f:
            self.entries = [line.strip().split(" ") for line in f if line.strip()]
        self.transform = Pipeline(middle(cfg), mirror, gamma, to_chw(cfg))

    def __getitem__(self, item):
        number, how, g = self.entries[item]
        n = int(number)
        return self.transform(dict(image=self.images[n], depth=self.depths[n], flip=(how == "flip"), gamma=float(g)))

    def __len__(self):
        return len(self.entries)
