"""Pictures of grains with label maps; every random choice hangs on the sample's index alone."""
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

from .registry import load_config

ROOT = Path(__file__).resolve().parent.parent / "data"
CFG = load_config().data


class ShortSide:
    """Shrinks so that the shorter side is `size`."""

    def __init__(self, size):
        self.size = size

    def __call__(self, s):
        h, w = s["label"].shape
        scale = self.size / min(h, w)
        size = (round(w * scale), round(h * scale))
        return {**s, "image": np.asarray(Image.fromarray(s["image"]).resize(size, Image.BICUBIC)),
                "label": np.asarray(Image.fromarray(s["label"]).resize(size, Image.NEAREST))}


class CentreCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, s):
        h, w = s["label"].shape
        y, x = (h - self.size) // 2, (w - self.size) // 2
        cut = np.s_[y:y + self.size, x:x + self.size]
        return {**s, "image": s["image"][cut], "label": s["label"][cut]}


class RandomCropFlip:
    def __init__(self, size):
        self.size = size

    def __call__(self, s):
        rng = np.random.RandomState(CFG.seed + s["index"])
        h, w = s["label"].shape
        y, x = rng.randint(0, h - self.size + 1), rng.randint(0, w - self.size + 1)
        cut = np.s_[y:y + self.size, x:x + self.size]
        image, label = s["image"][cut], s["label"][cut]
        if rng.rand() < 0.5:
            image, label = image[:, ::-1], label[:, ::-1]
        if rng.rand() < 0.5:
            image, label = image[::-1], label[::-1]
        return {**s, "image": image.copy(), "label": label.copy()}


class GammaJitter:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, s):
        rng = np.random.RandomState(CFG.seed + 7919 + s["index"])
        gamma = np.exp(rng.uniform(-self.amount, self.amount))
        return {**s, "image": ((s["image"] / 255.0) ** gamma * 255.0).round().astype(np.uint8)}


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = np.array(mean, np.float32), np.array(std, np.float32)

    def __call__(self, s):
        image = (s["image"].astype(np.float32) / 255 - self.mean) / self.std
        return {**s, "image": np.ascontiguousarray(image.transpose(2, 0, 1))}


class MakeTargets:
    """Foreground, pixels that count, and on the coarse grid: heat, log sizes and the cells that hold a centre."""

    def __init__(self, stride, min_area):
        self.stride, self.min_area = stride, min_area

    def __call__(self, s):
        label = s["label"]
        h, w = label.shape
        gh, gw = h // self.stride, w // self.stride
        heat, pos = np.zeros((1, gh, gw), np.float32), np.zeros((1, gh, gw), np.float32)
        size = np.zeros((2, gh, gw), np.float32)
        valid = np.ones((1, h, w), np.float32)
        yy, xx = np.mgrid[:gh, :gw]
        for k in np.unique(label):
            if k == 0:
                continue
            ys, xs = np.nonzero(label == k)
            if len(ys) < self.min_area:          # slivers at the border count neither way
                valid[0, ys, xs] = 0
                continue
            bh, bw = ys.max() - ys.min() + 1, xs.max() - xs.min() + 1
            cy = min(int((ys.mean() + 0.5) / self.stride), gh - 1)
            cx = min(int((xs.mean() + 0.5) / self.stride), gw - 1)
            sigma = max(bh, bw) / self.stride / 3
            bump = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * sigma ** 2))
            heat[0] = np.maximum(heat[0], bump)
            pos[0, cy, cx] = 1
            size[:, cy, cx] = np.log(bh), np.log(bw)
        mask = (label > 0).astype(np.float32)[None]
        return s["image"], {"mask": mask, "valid": valid, "heat": heat, "size": size, "pos": pos}


def make_transforms(split):
    middle = ([RandomCropFlip(CFG.crop), GammaJitter(CFG.gamma)] if split == "train"
              else [ShortSide(CFG.crop), CentreCrop(CFG.crop)])
    return [*middle, Normalize(CFG.mean, CFG.std), MakeTargets(CFG.stride, CFG.min_area)]


class GrainSet(Dataset):
    def __init__(self, split):
        self.names = json.loads((ROOT / "folds.json").read_text())[split]
        self.repeats = CFG.repeats if split == "train" else 1
        self.transforms = make_transforms(split)

    def __len__(self):
        return len(self.names) * self.repeats

    def __getitem__(self, index):
        name = self.names[index % len(self.names)]
        s = {"index": index, "image": np.asarray(Image.open(ROOT / "img" / f"{name}.png").convert("RGB")),
             "label": np.asarray(Image.open(ROOT / "img" / f"{name}_lab.png"))}
        for t in self.transforms:
            s = t(s)
        return s


class EpochOrder(Sampler):
    def __init__(self, n, seed):
        self.n, self.seed, self.epoch = n, seed, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(np.random.RandomState(self.seed + self.epoch).permutation(self.n).tolist())


def make_loader(split):
    data = GrainSet(split)
    if split == "train":
        return DataLoader(data, CFG.batch_size, sampler=EpochOrder(len(data), CFG.seed), drop_last=True)
    return DataLoader(data, CFG.eval_batch_size)


def picture(path):
    image = np.asarray(Image.open(path).convert("RGB"))
    return torch.from_numpy(Normalize(CFG.mean, CFG.std)({"image": image})["image"])[None]
