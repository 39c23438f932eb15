import collections
import json
import os

import numpy as np
import paddle
from PIL import Image

from .settings import DATA_DIR, S

GREY = np.array([0.299, 0.587, 0.114])


def to_chw(pixels):
    """0..1, H x W x 3 -> standardised float32, 3 x H x W."""
    pixels = (pixels - np.array(S.rgb_mean)) / np.array(S.rgb_std)
    return pixels.transpose([2, 0, 1]).astype("float32")


def fit_square(img):
    ratio = S.side / max(img.width, img.height)
    new_w, new_h = int(round(img.width * ratio)), int(round(img.height * ratio))
    dx, dy = (S.side - new_w) // 2, (S.side - new_h) // 2
    square = Image.new("RGB", (S.side, S.side), (114, 114, 114))
    square.paste(img.resize((new_w, new_h), Image.BILINEAR), (dx, dy))
    return np.asarray(square) / 255.0, ratio, (dx, dy)


def corner_radius(w, h, overlap):
    """CornerNet's radius, as published there (all three cases)."""

    def root(a, b, c, sign, divisor):
        return (b + sign * np.sqrt(b * b - 4 * a * c)) / divisor

    area = w * h
    return min(
        root(1, w + h, area * (1 - overlap) / (1 + overlap), -1, 2),
        root(4, 2 * (w + h), (1 - overlap) * area, -1, 8),
        root(4 * overlap, -2 * overlap * (w + h), (overlap - 1) * area, 1, 8 * overlap),
    )


def splat(plane, x, y, r):
    """Raises plane to a bump of radius r around (x, y)."""
    rows, cols = np.mgrid[: plane.shape[0], : plane.shape[1]]
    sigma = (2 * r + 1) / 6
    bump = np.exp(-((rows - y) ** 2 + (cols - x) ** 2) / (2 * sigma**2))
    inside = (abs(rows - y) <= r) & (abs(cols - x) <= r)
    np.maximum(plane, np.where(inside, bump, 0), out=plane)


class Shapes(paddle.io.Dataset):
    def __init__(self, mode):
        super().__init__()
        self.augment = mode == "train"
        with open(os.path.join(DATA_DIR, "annotations.json")) as f:
            coco = json.load(f)
        names = {c["id"]: c["name"] for c in coco["categories"]}
        found = collections.defaultdict(list)
        for ann in coco["annotations"]:
            if not ann["ignore"]:
                found[ann["image_id"]].append((ann["bbox"], S.labels.index(names[ann["category_id"]])))
        self.records = [(im["id"], im["file_name"], found[im["id"]]) for im in coco["images"] if im["split"] == mode]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, idx):
        image_id, name, objects = self.records[idx]
        img = np.asarray(Image.open(os.path.join(DATA_DIR, "images", name)).convert("RGB")) / 255.0
        xywh = np.array([box for box, _ in objects], dtype="float64")
        if self.augment:
            rng = np.random.default_rng([S.seed, image_id])
            if rng.random() < S.flip:
                img = img[:, ::-1]
                xywh[:, 0] = img.shape[1] - xywh[:, 0] - xywh[:, 2]
            img = img * rng.uniform(1 - S.brightness, 1 + S.brightness)
            level = np.dot(img, GREY).mean()
            img = level + (img - level) * rng.uniform(1 - S.contrast, 1 + S.contrast)
            img = np.clip(img, 0, 1)
        return to_chw(img), self.targets(xywh, [label for _, label in objects])

    def targets(self, xywh, labels):
        grid = S.side // S.down
        heat = np.zeros([len(S.labels), grid, grid], "float32")
        wh, reg = np.zeros([S.slots, 2], "float32"), np.zeros([S.slots, 2], "float32")
        cell, valid = np.zeros([S.slots], "int64"), np.zeros([S.slots], "float32")
        xyxy, cls = np.zeros([S.slots, 4], "float32"), np.full([S.slots], -1, "int64")
        n = min(len(labels), S.slots)
        xywh = xywh[:n]
        xyxy[:n] = np.concatenate([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], axis=1)
        cls[:n], valid[:n] = labels[:n], 1
        wh[:n] = xywh[:, 2:] / S.down
        middle = (xywh[:, :2] + xywh[:, 2:] / 2) / S.down
        whole = np.minimum(np.floor(middle), grid - 1).astype("int64")
        reg[:n] = middle - whole
        cell[:n] = whole[:, 1] * grid + whole[:, 0]
        for k in range(n):
            r = corner_radius(*np.ceil(xywh[k, 2:] / S.down), S.corner_overlap)
            splat(heat[labels[k]], whole[k, 0], whole[k, 1], max(int(r), 0))
        return {
            "heatmap": heat, "size": wh, "offset": reg, "index": cell,
            "mask": valid, "boxes": xyxy, "classes": cls,
        }


class SeededBatches(paddle.io.BatchSampler):
    """Whole batches of an order that seed and epoch fix."""

    def __init__(self, count):
        self.count, self.epoch = count, 0

    def __iter__(self):
        order = np.random.default_rng([S.seed, self.epoch]).permutation(self.count)
        for start in range(0, len(self) * S.batch, S.batch):
            yield [int(i) for i in order[start : start + S.batch]]

    def __len__(self):
        return self.count // S.batch
