"""A hymn is a table of numbers: onset, length, pitch, and a list of voices."""
import json

import numpy as np

from .spelling import to_number


def open_hymn(path, transpose=0):
    raw = json.load(open(path))
    rows = [(on, dur, to_number(p) + transpose, v) for on, dur, p, v in raw["notes"]]
    rows = sorted(rows, key=lambda r: (r[0], -r[2]))
    table = np.array([r[:3] for r in rows], dtype="float64")
    return table, [r[3] for r in rows], raw["meter"]


def slices(count, width, hop):
    first = 0
    while first < max(count - width, 0) + hop:
        last = min(first + width, count)
        if last - first >= 4:
            yield slice(first, last)
        first += hop


def predecessors(voices):
    return [max((j for j in range(i) if voices[j] == v), default=-1) for i, v in enumerate(voices)]
