import re
from collections import Counter

SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
PAD, BOS, EOS, UNK = range(4)
PATTERN = re.compile(r"[a-z]+(?:'[a-z]+)?|[.,;:!?]")


def words(line):
    return PATTERN.findall(line.lower())


class Tokenizer:
    def __init__(self, lines, size):
        counts = Counter(w for line in lines for w in words(line))
        ranked = sorted(counts, key=lambda w: (-counts[w], w))
        self.itos = SPECIALS + ranked[: size - len(SPECIALS)]
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, line):
        return [self.stoi.get(w, UNK) for w in words(line)]

    def decode(self, ids):
        return " ".join(self.itos[i] for i in ids)
