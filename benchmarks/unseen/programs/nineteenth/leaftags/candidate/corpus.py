import collections
import json
import os
import re

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

from . import settings
from .taxonomy import taxonomy

PAD_ID = 0
OOV_ID = 1


def load_notes(split):
    with open(os.path.join(settings.ROOT, "notes.jsonl")) as f:
        notes = map(json.loads, f)
        return [n for n in notes if n["split"] == split]


def words_of(text):
    return re.findall("[a-z]+|[0-9]", text.lower())


def build_lexicon():
    freq = collections.Counter()
    for note in load_notes("train"):
        freq.update(words_of(note["text"]))
    ranked = sorted(freq.items(), key=lambda kv: (-kv[1], kv[0]))
    ranked = [w for w, n in ranked if n >= settings.text["min_count"]]
    return {w: k for k, w in enumerate(ranked, start=2)}


lexicon = build_lexicon()
VOCAB_SIZE = len(lexicon) + 2


def split_words(sample):
    return dict(sample, tokens=words_of(sample["text"]))


def shorten(sample):
    words, limit = sample["tokens"], settings.text["limit"]
    if len(words) > limit:
        back = limit // 4
        words = words[: limit - back] + words[len(words) - back :]
    return dict(sample, tokens=words)


def to_ids(sample):
    return dict(sample, tokens=np.asarray([lexicon.get(w, OOV_ID) for w in sample["tokens"]], dtype="int64"))


def drop_words(sample):
    ids = sample["tokens"].copy()
    draw = np.random.RandomState(settings.loader["seed"] + sample["id"])
    ids[draw.rand(ids.size) < settings.text["word_drop"]] = OOV_ID
    return dict(sample, tokens=ids)


def pipeline(split):
    return [split_words, shorten, to_ids] + ([drop_words] if split == "train" else [])


class Notes(Dataset):
    def __init__(self, split):
        super().__init__()
        self.notes = load_notes(split)
        self.transforms = pipeline(split)

    def __len__(self):
        return len(self.notes)

    def size_of(self, k):
        return min(settings.text["limit"], len(words_of(self.notes[k]["text"])))

    def __getitem__(self, k):
        note = self.notes[k]
        sample = {"id": note["id"], "text": note["text"]}
        for step in self.transforms:
            sample = step(sample)
        return {"tokens": sample["tokens"], "labels": taxonomy.multi_hot(note["labels"])}


class LengthBuckets(BatchSampler):
    def __init__(self, notes, training):
        self.sizes = np.array([notes.size_of(k) for k in range(len(notes))])
        self.training = training
        self.batch_size = settings.loader["batch"]
        self.round = 0

    def set_epoch(self, epoch):
        self.round = epoch

    def __iter__(self):
        gen = np.random.RandomState(settings.loader["seed"] + self.round)
        ids = gen.permutation(self.sizes.size) if self.training else np.arange(self.sizes.size)
        plan = []
        for lo in range(0, ids.size, settings.loader["bucket"]):
            bucket = ids[lo : lo + settings.loader["bucket"]]
            bucket = bucket[np.argsort(self.sizes[bucket], kind="stable")]
            plan.extend(np.split(bucket, range(self.batch_size, bucket.size, self.batch_size)))
        turn = gen.permutation(len(plan)) if self.training else range(len(plan))
        for k in turn:
            yield plan[k].tolist()

    def __len__(self):
        return sum(-(-min(settings.loader["bucket"], self.sizes.size - lo) // self.batch_size) for lo in range(0, self.sizes.size, settings.loader["bucket"]))


def pad_batch(samples):
    longest = max(s["tokens"].size for s in samples)
    ids = np.stack([np.pad(s["tokens"], (0, longest - s["tokens"].size), constant_values=PAD_ID) for s in samples])
    return {"tokens": paddle.to_tensor(ids), "labels": paddle.to_tensor(np.stack([s["labels"] for s in samples]))}


def data_loader(split):
    notes = Notes(split)
    return DataLoader(notes, batch_sampler=LengthBuckets(notes, split == "train"), collate_fn=pad_batch)
