import json
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset
from PIL import Image

DATA = Path(__file__).resolve().parent.parent / "data"


class Pipeline:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, sample):
        for step in self.transforms:
            sample = step(sample)
        return sample


class Crop:
    """A window of `size`, drawn or in the middle; boxes whose centre is outside are dropped."""

    def __init__(self, size, draw):
        self.size, self.draw = size, draw

    def __call__(self, sample):
        image, boxes = sample["image"], sample["boxes"].copy()
        h, w = self.size
        slack_y, slack_x = image.shape[0] - h, image.shape[1] - w
        if self.draw:
            y = np.random.randint(slack_y + 1)
            x = np.random.randint(slack_x + 1)
        else:
            y, x = slack_y // 2, slack_x // 2
        boxes[:, :4] -= np.array([x, y, x, y], "float32")
        centre = (boxes[:, :2] + boxes[:, 2:4]) / 2
        inside = ((centre > 0) & (centre < np.array([w, h]))).all(axis=1)
        boxes = boxes[inside]
        boxes[:, :4] = np.clip(boxes[:, :4], 0, np.array([w, h, w, h], "float32"))
        return {"image": image[y : y + h, x : x + w], "boxes": boxes}


class Flip:
    def __init__(self, p):
        self.p = p

    def __call__(self, sample):
        image, boxes = sample["image"], sample["boxes"]
        if np.random.rand() < self.p:
            width = image.shape[1]
            image = image[:, ::-1]
            x1, y1, x2, y2, label = boxes.T
            boxes = np.stack([width - x2, y1, width - x1, y2, label], axis=1)
        return {"image": image, "boxes": boxes}


class Brightness:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, sample):
        factor = np.random.uniform(1 - self.amount, 1 + self.amount)
        image = np.clip(sample["image"].astype("float32") * factor, 0, 255).astype("float32")
        return dict(sample, image=image)


class Standardise:
    def __init__(self, mean, std):
        self.mean, self.std = np.float32(mean), np.float32(std)

    def __call__(self, sample):
        image = sample["image"].astype("float32") / 255.0
        return dict(sample, image=(image - self.mean) / self.std)


class ChannelsFirst:
    def __call__(self, sample):
        return dict(sample, image=np.ascontiguousarray(np.moveaxis(sample["image"], -1, 0)))


def pipeline(cfg, split):
    if split == "train":
        first = [Crop(cfg.size, draw=True), Flip(cfg.flip), Brightness(cfg.jitter)]
    else:
        first = [Crop(cfg.size, draw=False)]
    return Pipeline(*first, Standardise(cfg.mean, cfg.std), ChannelsFirst())


def read_image(path):
    with Image.open(path) as im:
        return np.array(im.convert("RGB"))


class SceneSet(Dataset):
    def __init__(self, cfg, split):
        super().__init__()
        self.cfg = cfg
        self.transform = pipeline(cfg, split)
        with open(DATA / f"{split}.json") as f:
            self.records = json.load(f)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        record = self.records[i]
        boxes = np.array([[*o["box"], o["digit"]] for o in record["objects"]], "float32")
        sample = self.transform({"image": read_image(DATA / "images" / record["file"]), "boxes": boxes})
        missing = self.cfg.max_objects - len(sample["boxes"])
        target = np.pad(sample["boxes"], ((0, missing), (0, 0)), constant_values=-1)
        return sample["image"], target.astype("float32")


def loader(cfg, split):
    training = split == "train"
    return DataLoader(SceneSet(cfg, split), batch_size=cfg.batch_size, shuffle=training, drop_last=training)
