import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from . import transforms as T

ROOT = Path(__file__).resolve().parents[2] / "data"


class Scenes(Dataset):
    """Digits before photographs."""

    def __init__(self, split, transform, max_objects):
        self.records = json.loads((ROOT / f"{split}.json").read_text())
        self.transform = transform
        self.max_objects = max_objects

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        record = self.records[i]
        image = np.asarray(Image.open(ROOT / "images" / record["file"]).convert("RGB"))
        boxes = np.array([o["box"] + [o["digit"]] for o in record["objects"]], "float32")
        sample = self.transform({"image": image, "boxes": boxes})
        target = np.full((self.max_objects, 5), -1, "float32")
        target[: len(sample["boxes"])] = sample["boxes"]
        return torch.from_numpy(sample["image"]), torch.from_numpy(target)


def build_transform(cfg, split):
    size = (cfg.image.height, cfg.image.width)
    if split == "train":
        steps = [T.RandomCrop(size), T.RandomFlip(cfg.data.flip), T.RandomBrightness(cfg.data.jitter)]
    else:
        steps = [T.CenterCrop(size)]
    return T.Compose([*steps, T.Normalize(cfg.image.mean, cfg.image.std), T.ToCHW()])


def build_set(cfg, split):
    return Scenes(split, build_transform(cfg, split), cfg.data.max_objects)


def build_loader(cfg, split):
    train = split == "train"
    return DataLoader(build_set(cfg, split), cfg.data.batch_size, shuffle=train, drop_last=train)
