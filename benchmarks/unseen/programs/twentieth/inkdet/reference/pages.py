"""Pages with pasted digits."""
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parents[1] / "data"
MEAN, STD, MOST = 0.72, 0.21, 6


class ToInk:
    """White paper becomes zero-mean background, ink positive."""

    def __call__(self, image, boxes):
        return (MEAN - image.astype(np.float32) / 255.0) / STD, boxes


class Jitter:
    """Contrast and brightness, drawn from the page's own number."""

    def __call__(self, image, boxes, seed):
        rng = np.random.RandomState(1000 + seed)
        gain, shift = rng.uniform(0.8, 1.2), rng.uniform(-15, 15)
        mean = image.mean()
        return np.clip((image - mean) * gain + mean + shift, 0, 255), boxes


class Pages(Dataset):
    def __init__(self, split):
        self.split = split
        self.items = json.loads((DATA / f"{split}.json").read_text())

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        item = self.items[i]
        image = np.asarray(Image.open(DATA / "pages" / item["file"]).convert("L"))
        boxes = [[x, y, x + w, y + h, b["digit"]] for b in item["boxes"] for x, y, w, h in [b["bbox"]]]
        boxes = np.asarray(boxes, dtype=np.float32)
        if self.split == "train":
            image, boxes = Jitter()(image, boxes, i)
        image, boxes = ToInk()(image, boxes)
        padded = np.full((MOST, 5), -1, dtype=np.float32)
        padded[:len(boxes)] = boxes
        return image[None].astype(np.float32), padded


def make_loader(split):
    g = np.random.RandomState(4)
    ds = Pages(split)
    order = g.permutation(len(ds)).tolist() if split == "train" else list(range(len(ds)))
    return DataLoader(ds, batch_size=4, sampler=order, drop_last=split == "train")


def letterbox(path, size=96):
    """Scale the longer side to `size`, pad right and below with paper."""
    image = Image.open(path).convert("L")
    scale = size / max(image.size)
    w, h = (int(round(s * scale)) for s in image.size)
    small = np.asarray(image.resize((w, h), Image.BILINEAR))
    x, _ = ToInk()(small, None)
    canvas = np.zeros((size, size), dtype=np.float32)
    canvas[:h, :w] = x
    return torch.from_numpy(canvas)[None, None], scale, image.size
