import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from ..settings import SETTINGS
from .corpus import PAD, the_corpus


def right_aligned(numbers, size):
    row = np.full(size, PAD, dtype="int64")
    tail = numbers[max(0, len(numbers) - size):]
    if tail:
        row[size - len(tail):] = tail
    return row


class TrainingWindows(Dataset):
    def __init__(self, corpus, feed):
        super().__init__()
        self.corpus, self.feed = corpus, feed

    def __len__(self):
        return len(self.corpus.people)

    def pair(self, history):
        clicks = history[:-1]
        return clicks[:-1], clicks[1:]

    def drawn(self, pool):
        shape = (self.feed.window, self.feed.drawn)
        places = np.arange(shape[0] * shape[1]).reshape(shape)
        return np.take(np.asarray(pool, dtype="int64"), places % len(pool))

    def __getitem__(self, i):
        person = self.corpus.people[i]
        before, after = self.pair(self.corpus.histories[person])
        window = self.feed.window
        return (
            right_aligned(before, window),
            right_aligned(after, window),
            self.drawn(self.corpus.negatives[person]),
        )


class HeldOutClicks(TrainingWindows):
    def pair(self, history):
        *before, last = history
        return before, [last]

    def drawn(self, pool):
        row = right_aligned(pool, self.feed.candidates)
        return np.repeat(row[None, :], self.feed.window, axis=0)


def dataset_for(split):
    kind = {"train": TrainingWindows, "val": HeldOutClicks}[split]
    return kind(the_corpus(), SETTINGS.feed)


def stack(batch):
    before, after, negatives = (paddle.to_tensor(np.stack(part)) for part in zip(*batch))
    return before, {"target": after, "negatives": negatives}


def loader_for(split):
    options = {"shuffle": True, "drop_last": True} if split == "train" else {}
    return DataLoader(
        dataset_for(split),
        batch_size=SETTINGS.feed.batch,
        collate_fn=stack,
        **options,
    )
