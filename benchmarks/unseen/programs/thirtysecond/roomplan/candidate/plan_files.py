"""Reading floor plans (numpy)."""
import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOM_NAMES = ("bath", "bedroom", "hall", "kitchen", "living")
HOUSE_NAMES = ("flat", "terrace", "detached")
LINK_CODE = dict(none=0, door=1, opening=2, wall=3, self=4)
PASSABLE = ("door", "opening")
MAX_ROOMS = 9
RETURNS = 3


def read(path):
    with open(path) as f:
        return json.load(f)


def split_file(split):
    return os.path.join(HERE, "..", "data", split + ".json")


def return_rates(n, links):
    """Chance that a walk through the doors is back where it began after 2, 3, 4 steps."""
    open_ = np.zeros((n, n))
    for i, j, how in links:
        if how in PASSABLE:
            open_[i, j] = open_[j, i] = 1
    step = open_ / np.maximum(open_.sum(axis=1, keepdims=True), 1)
    return np.stack([np.diag(np.linalg.matrix_power(step, k)) for k in range(2, 2 + RETURNS)], axis=1)


def relations(links):
    codes = np.zeros((MAX_ROOMS, MAX_ROOMS), "int64")
    np.fill_diagonal(codes, LINK_CODE["self"])
    for i, j, how in links:
        codes[i, j] = LINK_CODE[how]
        codes[j, i] = LINK_CODE[how]
    return codes


def features(plan):
    col = lambda key: np.array([float(r[key]) for r in plan["rooms"]])
    area = col("area")
    own = [np.log(area), area / area.sum(), 1 / col("aspect"),
           np.minimum(col("windows"), 3) + 0.5 * col("outside"), col("level")]
    table = np.concatenate([np.stack(own, axis=1), return_rates(len(area), plan["links"])], axis=1)
    return np.pad(table, ((0, MAX_ROOMS - len(area)), (0, 0))).astype("float32")


def arrays(plan):
    mask = (np.arange(MAX_ROOMS) < len(plan["rooms"])).astype("float32")
    return features(plan), relations(plan["links"]), mask


def answers(plan):
    kinds = np.full(MAX_ROOMS, -1, "int64")
    for i, t in enumerate(plan["types"]):
        kinds[i] = ROOM_NAMES.index(t)
    return {"rooms": kinds, "dwelling": np.int64(HOUSE_NAMES.index(plan["dwelling"])),
            "heat": np.float32(np.log(plan["heat"] / 1000))}
