"""Grid description and bus readings, plain numpy."""
import json
import os
import statistics

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
KIND_ID = {"slack": 0, "plant": 1, "load": 2}
FIELDS = ["v", "a", "p"]
CALM = "none"
LIMIT = 4.0


def read_grid():
    with open(os.path.join(ROOT, "grid.json")) as fh:
        doc = json.load(fh)
    names = [bus["name"] for bus in doc["buses"]]
    pairs, logs, ratings, labels = [], [], [], []
    for item in doc["lines"]:
        pairs.append((names.index(item["from"]), names.index(item["to"])))
        logs.append(np.log(item["x"]))
        ratings.append(item["rating"] / 100.0)
        labels.append(item["name"])
    spread = statistics.pstdev(logs)
    centre = statistics.fmean(logs)
    table = np.empty((len(pairs), 2), dtype="float32")
    table[:, 0] = [(v - centre) / spread for v in logs]
    table[:, 1] = ratings
    return {
        "names": names,
        "kinds": [KIND_ID[bus["kind"]] for bus in doc["buses"]],
        "pairs": pairs,
        "labels": labels,
        "table": table,
    }


def shortest(n, pairs):
    """Floyd-Warshall over the undirected lines."""
    d = np.full((n, n), n * 10, dtype="int64")
    np.fill_diagonal(d, 0)
    for a, b in pairs:
        d[a, b] = d[b, a] = 1
    for m in range(n):
        d = np.minimum(d, d[:, m:m + 1] + d[m:m + 1, :])
    return d


def read_events(n):
    """All rows as (split, fault, severity, readings [n, 3] with nan where lost)."""
    with open(os.path.join(ROOT, "events.csv")) as fh:
        header, *lines = fh.read().split()
    columns = header.split(",")
    events = []
    for text in lines:
        cells = dict(zip(columns, text.split(",")))
        grid = np.full((n, len(FIELDS)), np.nan)
        for j, field in enumerate(FIELDS):
            for i in range(n):
                cell = cells["%s%02d" % (field, i + 1)]
                if cell:
                    grid[i, j] = float(cell)
        events.append((cells["split"], cells["fault"], float(cells["severity"]), grid))
    return events


class Scaler:
    def __init__(self, grids):
        stack = np.stack(grids)
        known = ~np.isnan(stack)
        count = known.sum(0)
        filled = np.where(known, stack, 0.0)
        self.centre = filled.sum(0) / count
        gap = np.where(known, stack - self.centre, 0.0)
        self.spread = np.sqrt((gap ** 2).sum(0) / (count - 1)) + 1e-6

    def __call__(self, grid):
        known = ~np.isnan(grid)
        z = np.where(known, grid - self.centre, 0.0) / self.spread
        z = z.clip(-LIMIT, LIMIT)
        lost = 1.0 - known.sum(1) / grid.shape[1]
        return np.column_stack([z, lost]).astype("float32")
