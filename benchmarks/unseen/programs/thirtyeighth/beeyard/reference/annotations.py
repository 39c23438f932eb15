"""Where somebody clicked on a bee."""
import csv
from collections import defaultdict


def read_points(path):
    points = defaultdict(list)
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle):
            points[row["photo"]].append((float(row["x"]), float(row["y"])))
    return points


def read_names(path):
    with open(path) as handle:
        return handle.read().split()
