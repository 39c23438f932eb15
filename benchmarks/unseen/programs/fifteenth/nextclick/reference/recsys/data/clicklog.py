import csv
from collections import Counter, defaultdict

from ..config import DATA_DIR


class Vocabulary:
    """Item codes to ids; 0 is padding, popular items get small ids."""

    def __init__(self, counts, min_count):
        kept = [item for item, n in counts.items() if n >= min_count]
        kept.sort(key=lambda item: (-counts[item], item))
        self.items = ["<pad>"] + kept
        self.ids = {item: i for i, item in enumerate(self.items)}

    def __len__(self):
        return len(self.items)

    def encode(self, items):
        return [self.ids[i] for i in items if i in self.ids]


class ClickLog:
    def __init__(self, cfg):
        self.cfg = cfg
        rows = []
        with open(DATA_DIR / cfg.clicks, newline="") as f:
            for row in csv.DictReader(f, delimiter="\t"):
                rows.append((row["user"], row["item"], int(row["time"])))
        self.vocab = Vocabulary(Counter(r[1] for r in rows), cfg.min_item_count)
        self.negatives = self._read_negatives(DATA_DIR / cfg.negatives)

        rows.sort(key=lambda r: (r[2], r[1]))
        by_user = defaultdict(list)
        for user, item, _ in rows:
            if item in self.vocab.ids:
                by_user[user].append(self.vocab.ids[item])
        self.sequences = {
            user: seq
            for user, seq in sorted(by_user.items())
            if len(seq) >= cfg.min_user_clicks
        }

    def _read_negatives(self, path):
        table = {}
        for line in open(path):
            user, items = line.rstrip("\n").split("\t")
            table[user] = self.vocab.encode(items.split(" "))
        return table
