import os
from functools import lru_cache

from ..settings import FOLDER, SETTINGS

PAD = 0


def read_table(path):
    with open(path) as f:
        header = next(f).rstrip("\n").split("\t")
        columns = [header.index(name) for name in ("user", "item", "time")]
        for line in f:
            cells = line.rstrip("\n").split("\t")
            user, item, time = (cells[c] for c in columns)
            yield user, item, int(time)


def number_items(events, least):
    frequency = {}
    for _, item, _ in events:
        frequency[item] = frequency.get(item, 0) + 1
    frequent = (item for item in frequency if frequency[item] >= least)
    order = sorted(frequent, key=lambda item: (-frequency[item], item))
    return {item: number for number, item in enumerate(order, start=1)}


def to_numbers(codes, numbers):
    return [numbers[code] for code in codes if code in numbers]


class Corpus:
    def __init__(self, events, negative_lines, least_item, least_user):
        events = list(events)
        self.numbers = number_items(events, least_item)
        self.names = {number: item for item, number in self.numbers.items()}
        self.negatives = dict(map(self._parse, negative_lines))
        self.histories = self._histories(events, least_user)
        self.people = sorted(self.histories)

    @property
    def n_items(self):
        return len(self.numbers) + 1

    def _parse(self, line):
        user, _, rest = line.strip().partition("\t")
        return user, to_numbers(rest.split(), self.numbers)

    def _histories(self, events, least):
        grouped = {}
        for user, item, time in events:
            if item in self.numbers:
                grouped.setdefault(user, []).append((time, item))
        return {
            user: [self.numbers[item] for _, item in sorted(clicks)]
            for user, clicks in grouped.items()
            if len(clicks) >= least
        }


@lru_cache(maxsize=1)
def the_corpus():
    where = SETTINGS.files
    with open(os.path.join(FOLDER, where.negatives)) as f:
        negative_lines = f.readlines()
    return Corpus(
        read_table(os.path.join(FOLDER, where.clicks)),
        negative_lines,
        least_item=SETTINGS.feed.least_item,
        least_user=SETTINGS.feed.least_user,
    )
