import json
import os

import numpy as np
from paddle.io import Dataset, Sampler
from scipy.ndimage import distance_transform_edt

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
        return dict(sample, image=np.power(sample["image"], gamma))


@TRANSFORMS.register()
class RandomShift:
    """Moves the picture by some pixels; what comes in is the mirrored border."""

    def __init__(self, most):
        self.most = most

    def __call__(self, sample):
        dy, dx = np.random.randint(-self.most, self.most + 1, size=2)
        top, left = self.most - dy, self.most - dx

        def move(value):
            h, w = value.shape
            return np.pad(value, self.most, mode="reflect")[top : top + h, left : left + w]

        return {key: move(value) for key, value in sample.items()}


@TRANSFORMS.register()
class Normalise:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, sample):
        return dict(sample, image=(sample["image"] - self.mean) / self.std)


class Compose:
    def __init__(self, steps):
        self.transforms = steps

    def __call__(self, sample):
        for step in self.transforms:
            sample = step(sample)
        return sample


def border_weight(instances, w0, sigma):
    """Ronneberger et al. 2015: heavy where two cells are close to one another."""
    numbers = np.unique(instances)[1:]
    if len(numbers) < 2:
        return np.ones(instances.shape)
    far = np.stack([distance_transform_edt(instances != n) for n in numbers])
    far.sort(axis=0)
    closeness = np.exp(-((far[0] + far[1]) ** 2) / (2 * sigma**2))
    return 1 + w0 * np.where(instances == 0, closeness, 0.0)


class Cells(Dataset):
    def __init__(self, root, config, split):
        super().__init__()
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
        sample = dict(
            image=image.astype("float64") / 255.0,
            mask=(instances > 0).astype("float64"),
            weight=border_weight(instances, **self.border),
        )
        sample = self.transform(sample)
        image, mask, weight = (np.ascontiguousarray(sample[k][np.newaxis], "float32") for k in ("image", "mask", "weight"))
        return image, {"mask": mask, "weight": weight}


class EpochSampler(Sampler):
    """A new order in each epoch, from numpy, so that every program can repeat it."""

    def __init__(self, length, seed):
        super().__init__()
        self.length, self.seed, self.epoch = length, seed, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        order = np.random.RandomState(self.seed + self.epoch).permutation(self.length)
        return iter(order.tolist())
