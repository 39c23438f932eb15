"""CoNLL files: a token and a tag a line, an empty line between sentences."""
import torch
from torch.utils.data import DataLoader, Dataset

from .config import DATA, load
from .vocab import Vocabulary, normalise

IGNORE = -1


def sentences(path):
    block = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if line.startswith("-DOCSTART-"):
                continue
            if line:
                block.append(tuple(line.split("\t")))
            elif block:
                yield block
                block = []
    if block:
        yield block


class Encoder:
    def __init__(self, cfg=None):
        self.cfg = cfg or load().data
        self.words = Vocabulary(DATA / "words.txt")
        self.chars = Vocabulary(DATA / "chars.txt")
        self.tags = Vocabulary(DATA / "tags.txt")

    def encode(self, tokens):
        words = [self.words[normalise(t, self.cfg.lowercase)] for t in tokens]
        chars = torch.full((len(tokens), self.cfg.max_word), self.chars.pad)
        for i, token in enumerate(tokens):
            ids = [self.chars[c] for c in token][: self.cfg.max_word]
            chars[i, : len(ids)] = torch.tensor(ids)
        return torch.tensor(words), chars

    def collate(self, samples):
        n = max(len(s["words"]) for s in samples)
        batch = {
            "words": torch.full((len(samples), n), self.words.pad),
            "chars": torch.full((len(samples), n, self.cfg.max_word), self.chars.pad),
        }
        if "labels" in samples[0]:
            batch["labels"] = torch.full((len(samples), n), IGNORE)
        for i, sample in enumerate(samples):
            for key in batch:
                batch[key][i, : len(sample[key])] = sample[key]
        return batch


class TaggedSentences(Dataset):
    def __init__(self, split, encoder=None):
        self.encoder = encoder or Encoder()
        self.blocks = list(sentences(DATA / f"{split}.conll"))

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        tokens, tags = zip(*self.blocks[i])
        words, chars = self.encoder.encode(tokens)
        return {"words": words, "chars": chars, "labels": torch.tensor([self.encoder.tags[t] for t in tags])}


def loader(split):
    data = TaggedSentences(split)
    return DataLoader(data, batch_size=data.encoder.cfg.batch_size, collate_fn=data.encoder.collate)
