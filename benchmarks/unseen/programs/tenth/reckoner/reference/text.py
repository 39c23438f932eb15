"""Prompts with answers, packed into rows. Only answers (and the end after them) are learnt."""
import json
import pathlib

import torch
from torch.utils.data import DataLoader, Dataset

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
LENGTH = 44
IGNORE = -100


class Alphabet:
    def __init__(self):
        spec = json.loads((DATA / "alphabet.json").read_text())
        self.pad, self.bos, self.eos = spec["pad"], spec["bos"], spec["eos"]
        self.ids = {c: i + spec["first"] for i, c in enumerate(spec["chars"])}
        self.size = spec["first"] + len(self.ids)

    def encode(self, text):
        return [self.ids[c] for c in text]


def pieces(alphabet, doc):
    """Tokens of a document and, for each, the token that is to follow."""
    prompt = [alphabet.bos] + alphabet.encode(doc["prompt"])
    answer = alphabet.encode(doc["answer"]) + [alphabet.eos]
    whole = prompt + answer
    follow = [IGNORE] * (len(prompt) - 1) + answer
    return whole[:-1], follow


class Packed(Dataset):
    def __init__(self, split):
        self.alphabet = Alphabet()
        docs = [d for d in json.loads((DATA / "docs.json").read_text()) if d["split"] == split]
        rows, row = [], []
        for doc in docs:
            piece = pieces(self.alphabet, doc)
            if sum(len(p[0]) for p in row) + len(piece[0]) > LENGTH:
                rows.append(row)
                row = []
            row.append(piece)
        if row:
            rows.append(row)
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        tokens = torch.full((LENGTH,), self.alphabet.pad)
        labels = torch.full((LENGTH,), IGNORE)
        segments = torch.zeros(LENGTH, dtype=torch.long)
        positions = torch.zeros(LENGTH, dtype=torch.long)
        at = 0
        for number, (ids, follow) in enumerate(self.rows[i], 1):
            part = slice(at, at + len(ids))
            tokens[part] = torch.tensor(ids)
            labels[part] = torch.tensor(follow)
            segments[part] = number
            positions[part] = torch.arange(len(ids))
            at += len(ids)
        return {"tokens": tokens, "segments": segments, "positions": positions, "labels": labels}


def loader(split):
    return DataLoader(Packed(split), batch_size=3, shuffle=False)
