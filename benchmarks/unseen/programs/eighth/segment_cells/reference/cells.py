import json
import os

import numpy as np
from scipy.ndimage import distance_transform_edt
from torch.utils.data import Dataset, Sampler

from .registry import TRANSFORMS


@TRANSFORMS.register()
class RandomFlip:
    def __init__(self, p):
        self.p = p

    def __call__(self, sample):
        for axis in (0, 1):
            if np.random.uniform() < self.p:
                sample = {k: np.flip(v, axis) for k, v in sample.items()}
        return sample


@TRANSFORMS.register()
class RandomGamma:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __call__(self, sample):
        gamma = np.exp(np.random.uniform(np.log(self.low), np.log(self.high)))
        return {**sample, "image": sample["image"] ** gamma}


@TRANSFORMS.register()
class RandomShift:
    """Moves the picture by some pixels; what comes in is the mirrored border."""

    def __init__(self, most):
        self.most = most

    def __call__(self, sample):
        dy, dx = np.random.randint(-self.most, self.most + 1, size=2)
        m = self.most
        moved = {}
        for key, value in sample.items():
            wide = np.pad(value, m, mode="reflect")
            h, w = value.shape
            moved[key] = wide[m - dy : m - dy + h, m - dx : m - dx + w]
        return moved


@TRANSFORMS.register()
class Normalise:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, sample):
        return {**sample, "image": (sample["image"] - self.mean) / self.std}


class Compose:
    def __init__(self, steps):
        self.transforms = steps

    def __call__(self, sample):
        for step in self.transforms:
            sample = step(sample)
        return sample


def border_weight(instances, w0, sigma):
    """Ronneberger et al. 2015: heavy where two cells are close to one another."""
    numbers = [n for n in np.unique(instances) if n]
    if len(numbers) < 2:
        return np.ones(instances.shape)
    far = np.sort(np.stack([distance_transform_edt(instances != n) for n in numbers]), axis=0)
    weight = 1 + w0 * np.exp(-((far[0] + far[1]) ** 2) / (2 * sigma**2)) * (instances == 0)
    return weight


class Cells(Dataset):
    def __init__(self, root, config, split):
        self.folder = os.path.join(root, config["folder"])
        with open(os.path.join(self.folder, "index.json")) as file:
            self.names = sorted(json.load(file)[split])
        self.border = config["border"]
        self.transform = Compose([TRANSFORMS.build(step) for step in config["transforms"][split]])

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        with np.load(os.path.join(self.folder, self.names[i])) as file:
            image, instances = file["image"], file["instances"]
        sample = {
            "image": image.astype("float64") / 255.0,
            "mask": (instances > 0).astype("float64"),
            "weight": border_weight(instances, **self.border),
        }
        sample = {k: np.ascontiguousarray(v[None], dtype="float32") for k, v in self.transform(sample).items()}
        return sample["image"], {"mask": sample["mask"], "weight": sample["weight"]}


class EpochSampler(Sampler):
    """A new order in each epoch, from numpy, so that every program can repeat it."""

    def __init__(self, length, seed):
        self.length, self.seed, self.epoch = length, seed, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(np.random.RandomState(self.seed + self.epoch).permutation(self.length).tolist())
