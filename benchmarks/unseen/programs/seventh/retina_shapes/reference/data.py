import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from . import config
from .registry import PIPELINES


@PIPELINES.register
class RandomFlip:
    def __init__(self, prob):
        self.prob = prob

    def __call__(self, r):
        if r["rng"].rand() < self.prob:
            w = r["img"].shape[1]
            r["img"] = r["img"][:, ::-1]
            r["boxes"] = np.stack([w - r["boxes"][:, 2], r["boxes"][:, 1], w - r["boxes"][:, 0], r["boxes"][:, 3]], 1)
        return r


@PIPELINES.register
class Resize:
    """The longer side becomes `size`."""

    def __init__(self, size):
        self.size = size

    def __call__(self, r):
        h, w = r["img"].shape[:2]
        f = self.size / max(h, w)
        nw, nh = int(w * f + 0.5), int(h * f + 0.5)
        r["img"] = np.asarray(Image.fromarray(np.ascontiguousarray(r["img"])).resize((nw, nh), Image.BILINEAR))
        r["boxes"] = r["boxes"] * np.array([nw / w, nh / h, nw / w, nh / h])
        return r


@PIPELINES.register
class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = np.array(mean, "float32"), np.array(std, "float32")

    def __call__(self, r):
        r["img"] = (r["img"].astype("float32") - self.mean) / self.std
        return r


@PIPELINES.register
class Pad:
    def __init__(self, size):
        self.size = size

    def __call__(self, r):
        h, w = r["img"].shape[:2]
        r["img"] = np.pad(r["img"], ((0, self.size - h), (0, self.size - w), (0, 0)))
        return r


@PIPELINES.register
class Format:
    def __init__(self, max_boxes):
        self.max_boxes = max_boxes

    def __call__(self, r):
        target = np.full((self.max_boxes, 5), -1, "float32")
        target[: len(r["boxes"]), :4], target[: len(r["boxes"]), 4] = r["boxes"], r["labels"]
        return torch.from_numpy(np.ascontiguousarray(r["img"].transpose(2, 0, 1))), torch.from_numpy(target)


class ShapesDataset(Dataset):
    """Filled rectangles; the class is the colour channel that is brightest."""

    def __init__(self, length, seed, pipeline):
        self.length, self.seed, self.pipeline = length, seed, [PIPELINES.build(p) for p in pipeline]

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i >= self.length:
            raise IndexError(i)
        rng = np.random.RandomState(self.seed + i)
        h, w = rng.randint(40, 70, 2)
        img = rng.randint(0, 60, (h, w, 3)).astype("uint8")
        n = rng.randint(1, 5)
        boxes, labels = np.zeros((n, 4)), rng.randint(0, config.num_classes, n)
        for k in range(n):
            bw, bh = rng.uniform(10, 30, 2)
            x, y = rng.uniform(0, w - bw), rng.uniform(0, h - bh)
            boxes[k] = x, y, x + bw, y + bh
            img[int(y) : int(y + bh), int(x) : int(x + bw), labels[k]] = rng.randint(150, 255)
        r = dict(img=img, boxes=boxes, labels=labels, rng=rng)
        for step in self.pipeline:
            r = step(r)
        return r


def make_loader(split):
    return DataLoader(make_dataset(split), config.data["batch_size"], shuffle=split == "train", drop_last=split == "train")


def make_dataset(split):
    return ShapesDataset(**config.data[split], pipeline=config.pipelines[split])
