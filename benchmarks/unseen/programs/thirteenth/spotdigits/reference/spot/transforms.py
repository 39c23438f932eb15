"""Steps on a dict of an image [H, W, 3] and its boxes [n, 5] (corners, class)."""

import numpy as np


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, sample):
        for t in self.transforms:
            sample = t(sample)
        return sample


def crop(sample, top, left, size):
    h, w = size
    boxes = sample["boxes"].copy()
    boxes[:, [0, 2]] -= left
    boxes[:, [1, 3]] -= top
    cx, cy = boxes[:, [0, 2]].mean(1), boxes[:, [1, 3]].mean(1)
    keep = (cx > 0) & (cx < w) & (cy > 0) & (cy < h)
    boxes[:, [0, 2]] = boxes[:, [0, 2]].clip(0, w)
    boxes[:, [1, 3]] = boxes[:, [1, 3]].clip(0, h)
    return {"image": sample["image"][top : top + h, left : left + w], "boxes": boxes[keep]}


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, sample):
        h, w = sample["image"].shape[:2]
        top = np.random.randint(0, h - self.size[0] + 1)
        left = np.random.randint(0, w - self.size[1] + 1)
        return crop(sample, top, left, self.size)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, sample):
        h, w = sample["image"].shape[:2]
        return crop(sample, (h - self.size[0]) // 2, (w - self.size[1]) // 2, self.size)


class RandomFlip:
    def __init__(self, p):
        self.p = p

    def __call__(self, sample):
        if np.random.rand() >= self.p:
            return sample
        image, boxes = sample["image"][:, ::-1], sample["boxes"].copy()
        boxes[:, [0, 2]] = image.shape[1] - boxes[:, [2, 0]]
        return {"image": image, "boxes": boxes}


class RandomBrightness:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, sample):
        factor = np.random.uniform(1 - self.amount, 1 + self.amount)
        image = (sample["image"].astype("float32") * factor).clip(0, 255)
        return {**sample, "image": image.astype("float32")}


class Normalize:
    def __init__(self, mean, std):
        self.mean = np.array(mean, "float32")
        self.std = np.array(std, "float32")

    def __call__(self, sample):
        image = sample["image"].astype("float32") / 255.0
        return {**sample, "image": (image - self.mean) / self.std}


class ToCHW:
    def __call__(self, sample):
        return {**sample, "image": np.ascontiguousarray(sample["image"].transpose(2, 0, 1))}
