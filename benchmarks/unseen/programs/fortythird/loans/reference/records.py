"""Loans as tensors: what is known at the desk, and what happens week by week."""
import csv
import datetime as dt
import json
from functools import lru_cache
from zlib import crc32

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .settings import CONFIG

C = CONFIG["data"]
CODES = {
    "genre": ["novel", "crime", "children", "travel", "science", "craft"],
    "branch": ["Central", "Mill Road", "Harbour"],
    "kind": ["adult", "child", "student", "senior"],
    "quarter": ["1", "2", "3", "4"],
}
EVENTS = {"open": 0, "returned": 1, "renewed": 2, "lost": 3}


def day(text):
    return dt.date.fromisoformat(text)


def read(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


class Library:
    """All that was lent, in order of time, and the figures of the rows before the cut."""

    def __init__(self):
        self.titles = {t["title"]: t for t in read(C["titles"])}
        with open(C["closed"]) as f:
            self.closed = {day(d) for d in json.load(f)}
        self.loans = read(C["loans"])
        for loan in self.loans:
            loan["reminders"] = [int(d) for d in loan["reminders"].split(";") if d]
        self.early = [loan for loan in self.loans if loan["borrowed"] < C["cut"]]
        self.usual = float(np.mean([int(loan["days"]) for loan in self.early])) / 7
        raw = np.array([self.raw_numbers(loan) for loan in self.early])
        self.mean, self.std = raw.mean(0), raw.std(0, ddof=1)

    def raw_numbers(self, loan):
        title = self.titles[loan["title"]]
        before = [x for x in self.loans if x["borrowed"] < loan["borrowed"]]
        same = sum(x["title"] == loan["title"] for x in before)
        # a patron's habit: only loans that had ended by then
        began = day(loan["borrowed"])
        own = [int(x["days"]) / 7 for x in before if x["patron"] == loan["patron"]
               and day(x["borrowed"]) + dt.timedelta(days=int(x["days"])) <= began]
        habit = (sum(own) + 2 * self.usual) / (len(own) + 2)
        return [np.log(float(title["pages"])), float(loan["age"]), np.log1p(same), habit, float(loan["weeks"])]

    def numbers(self, loan):
        return ((np.array(self.raw_numbers(loan)) - self.mean) / self.std).astype("float32")

    def codes(self, loan):
        row = {"genre": self.titles[loan["title"]]["genre"], "branch": loan["branch"], "kind": loan["kind"],
               "quarter": str((day(loan["borrowed"]).month - 1) // 3 + 1)}
        return np.array([v.index(row[k]) + 1 if row[k] in v else 0 for k, v in CODES.items()], "int64")

    def words(self, loan):
        found = [1 + crc32(w.lower().encode()) % (C["vocabulary"] - 1)
                 for w in self.titles[loan["title"]]["name"].split()][: C["words"]]
        return np.array(found + [0] * (C["words"] - len(found)), "int64")

    def weekly(self, loan):
        began, rows = day(loan["borrowed"]), []
        for week in range(C["weeks"]):
            days = [began + dt.timedelta(days=7 * week + k) for k in range(7)]
            sent = [r for r in loan["reminders"] if r < 7 * (week + 1)]
            new = [r for r in sent if r >= 7 * week]
            fresh = np.exp(-(7 * (week + 1) - sent[-1]) / C["fade_days"]) if sent else 0.0
            shut = sum(d in self.closed for d in days) / 7
            season = 2 * np.pi * days[0].timetuple().tm_yday / 365.25
            rows.append([len(new), fresh, shut, float(week >= int(loan["weeks"])), np.sin(season), np.cos(season)])
        return np.array(rows, "float32")

    def outcome(self, loan):
        week, event = (int(loan["days"]) - 1) // 7, EVENTS[loan["outcome"]]
        return np.array([C["weeks"], 0] if week >= C["weeks"] else [week, event], "int64")

    def facts(self, loan):
        return {k: getattr(self, k)(loan) for k in ("numbers", "codes", "words", "weekly")}


@lru_cache(None)
def library():
    return Library()


class Loans(Dataset):
    def __init__(self, split):
        lib = library()
        self.rows = [x for x in lib.loans if (x["borrowed"] < C["cut"]) == (split == "train")]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        item = {k: torch.from_numpy(v) for k, v in library().facts(row).items()}
        item["labels"] = torch.from_numpy(library().outcome(row))
        return item


def loader(split):
    return DataLoader(Loans(split), batch_size=C["batch"], shuffle=False, drop_last=split == "train")
