import re
import string
from collections import Counter

PAD, UNK = 0, 1


def normalise(word):
    return re.sub(r"\d", "0", word.lower())


class Vocab:
    def __init__(self, items, min_freq=1):
        counts = Counter(items)
        kept = sorted((w for w, n in counts.items() if n >= min_freq), key=lambda w: (-counts[w], w))
        self.itos = ["<pad>", "<unk>"] + kept
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def __getitem__(self, item):
        return self.stoi.get(item, UNK)


def char_vocab():
    return Vocab(string.ascii_letters + string.digits + string.punctuation)
