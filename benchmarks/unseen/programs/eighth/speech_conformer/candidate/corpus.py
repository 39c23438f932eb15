import numpy as np
from paddle.io import BatchSampler, Dataset

from . import features as fe


def subsampled(n):
    """Frames that two convolutions of width 3 and stride 2 leave."""
    for _ in range(2):
        n = (n - 1) // 2
    return n


class Utterances(Dataset):
    sizes = {"train": (1000, 22), "val": (9000, 10)}

    def __init__(self, settings, split):
        super().__init__()
        self.settings, self.split = settings, split
        first, count = self.sizes[split]
        self.signals = [fe.utterance(seed, settings.features.rate) for seed in range(first, first + count)]

    def __len__(self):
        return len(self.signals)

    def frames(self, i):
        c = self.settings.features
        return 1 + (len(self.signals[i][0]) - c.window) // c.hop

    def __getitem__(self, i):
        c = self.settings.features
        signal, classes = self.signals[i]
        x = fe.standardise(fe.log_mel(signal, c))
        y = fe.frame_classes(classes, c, len(x))
        if self.split == "train":
            x = fe.mask_features(x, self.settings.masking)
        y = y[3::4][: subsampled(len(x))]
        return x.astype("float32"), y


class Collate:
    """Longest first, zeros behind, `ignore` behind the labels."""

    def __init__(self, ignore):
        self.ignore = ignore

    def __call__(self, samples):
        samples = sorted(samples, key=lambda s: len(s[0]), reverse=True)
        longest = len(samples[0][0])
        places = subsampled(longest)
        feats = [np.pad(x, ((0, longest - len(x)), (0, 0))) for x, _ in samples]
        labels = [np.pad(y, (0, places - len(y)), constant_values=self.ignore) for _, y in samples]
        lengths = [len(x) for x, _ in samples]
        return {"feats": np.stack(feats), "lengths": np.array(lengths, "int64"), "labels": np.stack(labels)}


class Buckets(BatchSampler):
    """Batches of like lengths, in another order in each epoch."""

    def __init__(self, data, size, seed, shuffle):
        super().__init__(dataset=data, batch_size=size, shuffle=shuffle, drop_last=False)
        order = sorted(range(len(data)), key=data.frames)
        self.batches = [order[i : i + size] for i in range(0, len(order), size)]
        self.seed, self.mixed, self.epoch = seed, shuffle, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        order = np.arange(len(self.batches))
        if self.mixed:
            np.random.RandomState(self.seed + self.epoch).shuffle(order)
        for i in order:
            yield self.batches[i]
