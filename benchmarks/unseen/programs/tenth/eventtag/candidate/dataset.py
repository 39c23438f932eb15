import json

import numpy as np
from paddle.io import BatchSampler, DataLoader, Dataset

from .config import BASE, cfg
from .dsp import Analyzer

DATA = BASE.parent / "data"


class SoundEvents(Dataset):
    def __init__(self, split):
        super().__init__()
        pcm = np.load(DATA / "clips.npz")["pcm"]
        annotations = json.loads((DATA / "events.json").read_text())
        analyzer = Analyzer(cfg.audio)
        self.samples = []
        pool = []
        for note in annotations:
            image, extra = analyzer.analyze(pcm[note["clip"]])
            if note["fold"] == "train":
                pool.append(image)
            if note["fold"] == split:
                self.samples.append((image, extra, note))
        pool = np.concatenate(pool, axis=1)
        self.mu = pool.mean(axis=1, keepdims=True)
        self.sigma = pool.std(axis=1, keepdims=True)

    def annotate(self, note, n):
        seconds = cfg.frames_per_label * cfg.audio.hop_length / cfg.audio.sample_rate
        centre = (np.arange(n) + 0.5) * seconds
        y = np.zeros([n, len(cfg.classes)], dtype="float32")
        for e in note["events"]:
            rows = np.logical_and(centre >= e["onset"], centre < e["offset"])
            y[rows, cfg.classes.index(e["label"])] = 1.0
        for c in note["unsure"]:
            y[:, cfg.classes.index(c)] = -1.0
        limit = note["reliable_until"]
        if limit is not None:
            y[centre >= limit, :] = -1.0
        return y

    def __getitem__(self, i):
        image, extra, note = self.samples[i]
        image = (image - self.mu) / (self.sigma + 1e-5)
        y = self.annotate(note, image.shape[1] // cfg.frames_per_label)
        return {"mel": image.astype("float32"), "descr": extra.astype("float32"), "labels": y}

    def __len__(self):
        return len(self.samples)


def make_loader(split):
    data = SoundEvents(split)
    sampler = BatchSampler(data, shuffle=False, batch_size=4, drop_last=(split == "train"))
    return DataLoader(data, batch_sampler=sampler)
