import csv

import numpy as np
from PIL import Image

from .stitches import KNIT, PURL, nearest


def index(path="data/charts.csv"):
    with open(path) as f:
        return [{"name": r["name"], "split": r["split"], "gauge": float(r["gauge"]), "needle": float(r["needle"]),
                 "flat": int(r["flat"])} for r in csv.DictReader(f)]


def swap_sides(row):
    """What is a knit stitch from the right side is a purl stitch from the wrong side."""
    out = row.copy()
    out[row == KNIT] = PURL
    out[row == PURL] = KNIT
    return out


def worked(path, flat):
    """Rows in the order and the direction in which they are worked: from the bottom, and from right to left;
    in flat knitting every second row is a wrong-side row: from left to right, seen from behind."""
    chart = nearest(np.asarray(Image.open(path).convert("RGB")))[::-1]
    rows = []
    for i, row in enumerate(chart):
        if flat and i % 2 == 1:
            rows.append(swap_sides(row))
        else:
            rows.append(row[::-1])
    return np.stack(rows).astype(np.int64)
