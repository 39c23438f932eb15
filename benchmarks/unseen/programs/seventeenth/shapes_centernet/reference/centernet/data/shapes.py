import json

import numpy as np
from PIL import Image
from torch.utils.data import Dataset, Sampler

from ..config import DATA
from .augment import color_jitter, horizontal_flip, normalize
from .gaussian import draw_gaussian, gaussian_radius


class EpochSampler(Sampler):
    """A permutation for each epoch that depends on seed and epoch alone."""

    def __init__(self, length, seed):
        self.length, self.seed, self.epoch = length, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(np.random.default_rng([self.seed, self.epoch]).permutation(self.length).tolist())

    def __len__(self):
        return self.length


class ShapesDataset(Dataset):
    def __init__(self, split, cfg):
        self.cfg = cfg
        self.train = split == "train"
        index = json.loads((DATA / "annotations.json").read_text())
        self.images = [image for image in index["images"] if image["split"] == split]
        self.category = {c["id"]: cfg.classes.index(c["name"]) for c in index["categories"]}
        self.objects = {}
        for annotation in index["annotations"]:
            self.objects.setdefault(annotation["image_id"], []).append(annotation)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        info = self.images[i]
        with Image.open(DATA / "images" / info["file_name"]) as picture:
            image = np.asarray(picture.convert("RGB"), dtype=np.float64) / 255.0
        objects = [o for o in self.objects[info["id"]] if not o["ignore"]]
        boxes = np.array([o["bbox"] for o in objects], dtype=np.float64)
        boxes[:, 2:] += boxes[:, :2]  # x, y, w, h -> corners
        classes = np.array([self.category[o["category_id"]] for o in objects])

        if self.train:
            aug = self.cfg.augment
            rng = np.random.default_rng([aug.seed, info["id"]])
            if rng.random() < aug.flip_prob:
                image, boxes = horizontal_flip(image, boxes)
            image = color_jitter(image, rng, aug.brightness, aug.contrast)
        return normalize(image, self.cfg.mean, self.cfg.std), self.encode(boxes, classes)

    def encode(self, boxes, classes):
        cfg = self.cfg
        size, most = cfg.input_size // cfg.stride, cfg.max_objects
        target = {
            "heatmap": np.zeros((len(cfg.classes), size, size), np.float32),
            "size": np.zeros((most, 2), np.float32),
            "offset": np.zeros((most, 2), np.float32),
            "index": np.zeros(most, np.int64),
            "mask": np.zeros(most, np.float32),
            "boxes": np.zeros((most, 4), np.float32),
            "classes": np.full(most, -1, np.int64),
        }
        for k, (box, label) in enumerate(zip(boxes[:most], classes)):
            scaled = box / cfg.stride
            w, h = scaled[2] - scaled[0], scaled[3] - scaled[1]
            center = np.array([(scaled[0] + scaled[2]) / 2, (scaled[1] + scaled[3]) / 2])
            cx, cy = np.minimum(center.astype(int), size - 1)
            radius = max(0, int(gaussian_radius(np.ceil(h), np.ceil(w), cfg.min_overlap)))
            draw_gaussian(target["heatmap"][label], cx, cy, radius)
            target["size"][k] = w, h
            target["offset"][k] = center - (cx, cy)
            target["index"][k] = cy * size + cx
            target["mask"][k] = 1
            target["boxes"][k] = box
            target["classes"][k] = label
        return target
