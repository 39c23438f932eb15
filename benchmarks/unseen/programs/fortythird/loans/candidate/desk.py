"""The lending desk's files: one pass in order of time keeps what was known at each loan."""
import csv
import json
from collections import Counter, defaultdict
from datetime import date, timedelta
from math import cos, exp, log, log1p, pi, sin
from zlib import crc32

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from .factory import DESK

GENRES = ("novel", "crime", "children", "travel", "science", "craft")
BRANCHES = ("Central", "Mill Road", "Harbour")
KINDS = ("adult", "child", "student", "senior")
QUARTERS = (1, 2, 3, 4)
LISTS = (GENRES, BRANCHES, KINDS, QUARTERS)
ENDS = ("open", "returned", "renewed", "lost")
HORIZON = DESK.getint("horizon")


def table(path):
    with open(path, newline="") as handle:
        return list(csv.DictReader(handle))


class Desk:
    def __init__(self):
        self.catalogue = {row["title"]: row for row in table(DESK["titles"])}
        self.shut = {date.fromisoformat(d) for d in json.load(open(DESK["closed"]))}
        self.rows = table(DESK["loans"])
        for row in self.rows:
            row["reminders"] = [int(d) for d in row["reminders"].split(";") if d]
        self.past = [r for r in self.rows if r["borrowed"] < DESK["cut"]]
        self.usual = sum(int(r["days"]) for r in self.past) / len(self.past) / 7
        figures = np.array([self.figures(r) for r in self.past])
        self.centre = figures.mean(axis=0)
        self.scale = figures.std(axis=0, ddof=1)

    def figures(self, row):
        lent, ended = Counter(), defaultdict(list)
        start = date.fromisoformat(row["borrowed"])
        for r in self.rows:
            if r["borrowed"] >= row["borrowed"]:
                break
            lent[r["title"]] += 1
            if date.fromisoformat(r["borrowed"]) + timedelta(int(r["days"])) <= start:
                ended[r["patron"]].append(int(r["days"]) / 7)
        own = ended[row["patron"]]
        habit = (sum(own) + 2 * self.usual) / (len(own) + 2)
        pages = float(self.catalogue[row["title"]]["pages"])
        return [log(pages), float(row["age"]), log1p(lent[row["title"]]), habit, float(row["weeks"])]

    def describe(self, row):
        """All that the model is told of one loan."""
        title, start = self.catalogue[row["title"]], date.fromisoformat(row["borrowed"])
        said = (title["genre"], row["branch"], row["kind"], (start.month + 2) // 3)
        codes = [one.index(x) + 1 if x in one else 0 for one, x in zip(LISTS, said)]
        slots, rows = DESK.getint("word_slots"), DESK.getint("word_rows")
        words = np.zeros(slots, "int64")
        for k, word in enumerate(title["name"].lower().split()[:slots]):
            words[k] = 1 + crc32(word.encode()) % (rows - 1)
        return {
            "numbers": ((np.array(self.figures(row)) - self.centre) / self.scale).astype("float32"),
            "codes": np.array(codes, "int64"),
            "words": words,
            "weekly": np.array([self.week(row, start, k) for k in range(HORIZON)], "float32"),
        }

    def week(self, row, start, k):
        begin, end = 7 * k, 7 * k + 7
        reminders = [d for d in row["reminders"] if d < end]
        fresh = exp((reminders[-1] - end) / DESK.getfloat("fading")) if reminders else 0.0
        shut = sum(start + timedelta(d) in self.shut for d in range(begin, end)) / 7
        angle = 2 * pi * (start + timedelta(begin)).timetuple().tm_yday / 365.25
        overdue = 1.0 if k >= int(row["weeks"]) else 0.0
        return [sum(d >= begin for d in reminders), fresh, shut, overdue, sin(angle), cos(angle)]

    def target(self, row):
        k = (int(row["days"]) - 1) // 7
        if k >= HORIZON:
            return np.array([HORIZON, 0], "int64")
        return np.array([k, ENDS.index(row["outcome"])], "int64")


_OPEN = []


def open_desk():
    if not _OPEN:
        _OPEN.append(Desk())
    return _OPEN[0]


class LentBooks(Dataset):
    def __init__(self, split):
        super().__init__()
        desk = open_desk()
        self.rows = desk.past if split == "train" else desk.rows[len(desk.past):]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        desk, row = open_desk(), self.rows[i]
        item = desk.describe(row)
        item["labels"] = desk.target(row)
        return {k: paddle.to_tensor(v) for k, v in item.items()}


def batches(split):
    last = split == "train"
    return DataLoader(LentBooks(split), batch_size=DESK.getint("batch"), shuffle=False, drop_last=last, num_workers=0)
