"""Clips in .npy files, listed in index.csv."""
import csv
import os

import numpy as np
import torch

from .options import ARCH, CLASSES, MEAN, RECIPE, STD

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def sample_frames(count):
    """The middle frame of each of `count` equal segments."""
    def apply(clip):
        middles = (np.arange(count) + 0.5) * len(clip) / count
        return clip[np.floor(middles).astype(int)]
    return apply


def centre_crop(size):
    def apply(clip):
        top = int(round((clip.shape[1] - size) / 2.0))
        left = int(round((clip.shape[2] - size) / 2.0))
        return clip[:, top : top + size, left : left + size]
    return apply


def to_float(clip):
    return clip.astype("float32") / 255.0


def normalise(mean, std):
    mean, std = np.array(mean, dtype="float32"), np.array(std, dtype="float32")
    return lambda clip: (clip - mean) / std


def channels_first(clip):
    return np.ascontiguousarray(clip.transpose(3, 0, 1, 2))


def pipeline():
    return [sample_frames(ARCH.frames), centre_crop(ARCH.size), to_float, normalise(MEAN, STD), channels_first]


class Clips(torch.utils.data.Dataset):
    def __init__(self, split):
        with open(os.path.join(FOLDER, "index.csv")) as handle:
            rows = [row for row in csv.DictReader(handle) if row["split"] == split]
        self.rows = sorted((row["file"], CLASSES.index(row["label"])) for row in rows)
        self.transforms = pipeline()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        name, label = self.rows[index]
        clip = np.load(os.path.join(FOLDER, name))
        for transform in self.transforms:
            clip = transform(clip)
        return torch.from_numpy(clip), label


def soft(labels, classes, smoothing):
    on, off = 1.0 - smoothing + smoothing / classes, smoothing / classes
    return torch.full((len(labels), classes), off).scatter_(1, labels[:, None], on)


def mixup(clips, targets, generator):
    """Each clip with the one at the other end of the batch."""
    share = float(generator.beta(RECIPE.mixup, RECIPE.mixup))
    share = max(share, 1.0 - share)
    return share * clips + (1.0 - share) * clips.flip(0), share * targets + (1.0 - share) * targets.flip(0)


class Batches:
    """Batches of one split; the training set in an order of its own, mixed, without a last part of a batch."""

    def __init__(self, split):
        self.dataset = Clips(split)
        self.train = split == "train"

    def __len__(self):
        n = len(self.dataset)
        return n // RECIPE.batch if self.train else -(-n // RECIPE.batch)

    def __iter__(self):
        generator = np.random.RandomState(RECIPE.seed)
        order = generator.permutation(len(self.dataset)) if self.train else np.arange(len(self.dataset))
        for i in range(len(self)):
            samples = [self.dataset[int(j)] for j in order[i * RECIPE.batch : (i + 1) * RECIPE.batch]]
            clips = torch.stack([clip for clip, _ in samples])
            labels = torch.tensor([label for _, label in samples])
            targets = soft(labels, ARCH.classes, RECIPE.smoothing if self.train else 0.0)
            yield mixup(clips, targets, generator) if self.train else (clips, targets)
