import csv
from pathlib import Path

import numpy as np
import paddle
from paddle.io import Dataset

from .config import cfg

ROOT = Path(__file__).resolve().parent.parent / "data"


class TemporalSegments:
    def __init__(self, num):
        self.num = num

    def __call__(self, clip):
        length = clip.shape[0]
        index = [int((2 * i + 1) * length // (2 * self.num)) for i in range(self.num)]
        return clip[index]


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, clip):
        _, height, width, _ = clip.shape
        y = int(round((height - self.size) / 2.0))
        x = int(round((width - self.size) / 2.0))
        return clip[:, y : y + self.size, x : x + self.size, :]


class ToFloat:
    def __call__(self, clip):
        return clip.astype(np.float32) / 255.0


class Normalize:
    def __init__(self, mean, std):
        self.mean = np.asarray(mean, dtype=np.float32)
        self.std = np.asarray(std, dtype=np.float32)

    def __call__(self, clip):
        return (clip - self.mean) / self.std


class ToCTHW:
    def __call__(self, clip):
        return np.ascontiguousarray(np.moveaxis(clip, -1, 0))


def build_transforms():
    return [
        TemporalSegments(cfg.model.num_frames),
        CenterCrop(cfg.model.image_size),
        ToFloat(),
        Normalize(cfg.data.mean, cfg.data.std),
        ToCTHW(),
    ]


class VideoDataset(Dataset):
    def __init__(self, split):
        super().__init__()
        numbers = {name: i for i, name in enumerate(cfg.data.classes)}
        with open(ROOT / "index.csv", newline="") as handle:
            self.files = [(r["file"], numbers[r["label"]]) for r in csv.DictReader(handle) if r["split"] == split]
        self.files.sort()
        self.transforms = build_transforms()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file, label = self.files[index]
        clip = np.load(ROOT / file)
        for transform in self.transforms:
            clip = transform(clip)
        return clip, label


def smooth_one_hot(labels, num_classes, smoothing):
    targets = np.eye(num_classes, dtype=np.float32)[labels]
    return (targets * (1.0 - smoothing) + smoothing / num_classes).astype(np.float32)


def mixup(clips, targets, rng, alpha):
    lam = rng.beta(alpha, alpha)
    lam = np.float32(max(lam, 1.0 - lam))
    other = np.float32(1.0) - lam
    return lam * clips + other * clips[::-1], lam * targets + other * targets[::-1]


class VideoLoader:
    """Batches as (clips, soft targets)."""

    def __init__(self, split):
        self.dataset = VideoDataset(split)
        self.batch_size = cfg.data.batch_size
        self.training = split == "train"

    def __len__(self):
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full if self.training or not rest else full + 1

    def collate(self, samples, rng):
        clips = np.stack([clip for clip, _ in samples])
        labels = np.array([label for _, label in samples])
        smoothing = cfg.data.label_smoothing if self.training else 0.0
        targets = smooth_one_hot(labels, cfg.model.num_classes, smoothing)
        if self.training:
            clips, targets = mixup(clips, targets, rng, cfg.data.mixup_alpha)
        return paddle.to_tensor(clips), paddle.to_tensor(targets)

    def __iter__(self):
        rng = np.random.RandomState(cfg.data.seed)
        indices = list(range(len(self.dataset)))
        if self.training:
            indices = rng.permutation(len(self.dataset)).tolist()
        for number in range(len(self)):
            chosen = indices[number * self.batch_size : (number + 1) * self.batch_size]
            yield self.collate([self.dataset[i] for i in chosen], rng)
