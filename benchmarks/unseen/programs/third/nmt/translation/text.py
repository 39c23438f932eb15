import itertools

import numpy as np
from paddle.io import DataLoader, Dataset

from .options import opt

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(len(SPECIAL))


class Lexicon:
    def __init__(self, language, least=2):
        with open("vocab.%s.txt" % language, encoding="utf-8") as handle:
            table = [row.split("\t") for row in handle.read().splitlines()]
        frequent = (w for w, n in table if int(n) >= least)
        self.words = list(itertools.chain(SPECIAL, frequent))
        self.index = dict(zip(self.words, range(len(self.words))))

    def ids(self, sentence):
        return [self.index.get(w, UNK) for w in sentence.lower().split()]


english = Lexicon("en")
french = Lexicon("fr")


def source_ids(sentence):
    return english.ids(sentence)[: opt.max_words] + [EOS]


class Bitext(Dataset):
    def __init__(self, split):
        super().__init__()
        with open("pairs.tsv", encoding="utf-8") as handle:
            lines = handle.read().splitlines()
        border = int(len(lines) * (1 - opt.dev_share))
        self.lines = lines[:border] if split == "train" else lines[border:]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, k):
        source, target = self.lines[k].split("\t")
        words = french.ids(target)[: opt.max_words]
        return np.array(source_ids(source)), np.array([BOS] + words), np.array(words + [EOS])


def padded(rows):
    out = np.full((len(rows), max(map(len, rows))), PAD, dtype="int64")
    for line, row in zip(out, rows):
        line[: len(row)] = row
    return out


def make_batch(samples):
    source, shifted, gold = map(list, zip(*samples))
    return dict(src=padded(source), src_len=np.array([len(s) for s in source]), tgt=padded(shifted), labels=padded(gold))


def loader(split):
    return DataLoader(Bitext(split), batch_size=opt.batch, shuffle=False, drop_last=False, collate_fn=make_batch)
