import json

import numpy as np
import paddle

PAD_ID, UNK_ID, MASK_ID, IGNORE, MAX_LEN = 0, 1, 2, -100, 10


def load_vocab(path="data/vocab.json"):
    with open(path) as f:
        return json.load(f)


def encode_file(path):
    ids = {w: i for i, w in enumerate(load_vocab())}
    with open(path) as f:
        lines = [ln.split() for ln in f.read().splitlines()]
    return [[ids.get(w, UNK_ID) for w in ln[:MAX_LEN]] for ln in lines if ln]


class MlmDataset(paddle.io.Dataset):
    def __init__(self, path):
        super().__init__()
        self.encoded = encode_file(path)
        self.n_words = len(load_vocab())

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, idx):
        gen = np.random.default_rng(4000 + idx)
        ids = np.asarray(self.encoded[idx], dtype="int64")
        labels = np.full(MAX_LEN, IGNORE, dtype="int64")
        k = max(1, int(round(len(ids) * 0.15)))
        for pos in gen.permutation(len(ids))[:k]:
            labels[pos] = ids[pos]
            u = gen.random()
            if u < 0.8:
                ids[pos] = MASK_ID
            elif u < 0.9:
                ids[pos] = gen.integers(3, self.n_words)
        ids = np.pad(ids, (0, MAX_LEN - len(ids)), constant_values=PAD_ID)
        return {"tokens": ids, "labels": labels}
