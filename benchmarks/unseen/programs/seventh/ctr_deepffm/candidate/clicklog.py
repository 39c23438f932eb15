import csv
import os

import numpy as np
import paddle

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("user", "gender", "city", "item")


def table(split):
    with open(os.path.join(HERE, "..", "data", split + ".csv")) as handle:
        head, *body = csv.reader(handle)
    columns = dict(zip(head, zip(*body)))
    columns["daytime"] = tuple(str(int(h) // 4) for h in columns["hour"])
    columns["price"] = np.log1p([float(v) if v else np.nan for v in columns["price"]])
    columns["age"] = np.array([float(v) if v else np.nan for v in columns["age"]])
    return columns


class Schema:
    """What is learnt from the training part: indices, fillings, scales."""

    names = COLUMNS + ("daytime",)
    numbers = ("age", "price")
    slots = 3

    def __init__(self, columns, rare=2):
        self.index, begin = {}, 0
        for name in self.names:
            values, counts = np.unique(columns[name], return_counts=True)
            keys = values[counts >= rare].tolist()
            self.index[name] = (begin, {v: begin + k for k, v in enumerate(keys, 1)})
            begin += len(keys) + 1
        self.rows = begin
        self.genre = {g: k for k, g in enumerate(sorted({g for cell in columns["genres"] for g in cell.split("|")}), 1)}
        self.scale = {}
        for name in self.numbers:
            middle = np.nanmedian(columns[name])
            full = np.where(np.isnan(columns[name]), middle, columns[name])
            self.scale[name] = middle, np.mean(full), np.std(full)

    def encode(self, columns):
        ids = np.stack([[self.index[n][1].get(v, self.index[n][0]) for v in columns[n]] for n in self.names], axis=1)
        numbers = []
        for name in self.numbers:
            middle, mean, std = self.scale[name]
            numbers.append((np.where(np.isnan(columns[name]), middle, columns[name]) - mean) / std)
        genres = np.zeros((len(ids), self.slots), dtype="int64")
        for row, cell in zip(genres, columns["genres"]):
            known = [self.genre[g] for g in cell.split("|") if g in self.genre]
            row[:len(known[:self.slots])] = known[:self.slots]
        return ids, np.stack(numbers, axis=1).astype("float32"), genres, np.array(columns["clicked"]).astype("float32")


SCHEMA = Schema(table("train"))


class ClickLog(paddle.io.Dataset):
    def __init__(self, split):
        super().__init__()
        self.arrays = SCHEMA.encode(table(split))

    def __len__(self):
        return len(self.arrays[0])

    def __getitem__(self, i):
        return tuple(a[i] for a in self.arrays)


def feed(split):
    return paddle.io.DataLoader(ClickLog(split), batch_size=32, shuffle=split == "train")
