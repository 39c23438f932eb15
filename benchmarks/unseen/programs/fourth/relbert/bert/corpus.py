"""numpy only: vocabulary, corruption, padding"""
import numpy as np
from paddle.io import Dataset

PAD, UNK, CLS, SEP, MASK = range(5)
NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
IGNORED = -100


class Tokenizer:
    def __init__(self, file, min_count=2, max_length=22):
        counts = {}
        with open(file) as f:
            for word in f.read().split():
                counts[word] = counts.get(word, 0) + 1
        kept = sorted(word for word in counts if counts[word] >= min_count)
        self.itos = NAMES + kept
        self.stoi = dict(zip(self.itos, range(len(self.itos))))
        self.room = max_length - 2

    def __len__(self):
        return len(self.itos)

    def __call__(self, tokens):
        tokens = tokens[:self.room]
        ids = np.array([CLS, *(self.stoi.get(t, UNK) for t in tokens), SEP], "int64")
        segment, types = 0, [0]
        for token in tokens:
            if token == "and":
                segment = 1
            types.append(segment)
        types.append(1)
        return ids, np.array(types, "int64")


class MaskedSentences(Dataset):
    def __init__(self, file, tokenizer, split, share=0.7, probability=0.2):
        super().__init__()
        with open(file) as f:
            sentences = [line.split() for line in f]
        border = int(share * len(sentences))
        numbered = list(enumerate(sentences))
        self.items = numbered[:border] if split == "train" else numbered[border:]
        self.tokenizer = tokenizer
        self.probability = probability

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        number, tokens = self.items[index]
        ids, types = self.tokenizer(tokens)
        n = len(ids)
        rng = np.random.RandomState(9000 + number)
        draw, kind = rng.rand(n), rng.rand(n)
        random_words = rng.randint(len(NAMES), len(self.tokenizer), n)
        chosen = draw < self.probability
        chosen[[0, -1]] = False
        if not chosen.any():
            chosen[3] = True
        labels = np.where(chosen, ids, IGNORED)
        corrupted = np.where(chosen & (kind < 0.8), MASK, ids)
        corrupted = np.where(chosen & (kind >= 0.8) & (kind < 0.9), random_words, corrupted)
        return {"input_ids": corrupted, "token_type_ids": types, "labels": labels}


def pad_collate(samples, fill=(PAD, 0, IGNORED)):
    longest = max(len(s["input_ids"]) for s in samples)
    batch = {}
    for value, key in zip(fill, ("input_ids", "token_type_ids", "labels")):
        rows = [np.pad(s[key], (0, longest - len(s[key])), constant_values=value) for s in samples]
        batch[key] = np.stack(rows).astype("int64")
    return batch
