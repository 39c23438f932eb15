"""Shower events for the Paddle port, in arrays of the whole split."""
import json
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1] / "data"
LIMIT = 12
EDGES = (20.0, 40.0)


def load_scales():
    with open(ROOT / "scales.json") as f:
        return json.load(f)


SCALES = load_scales()


def table(split):
    frame = pd.read_csv(ROOT / "events.csv")
    return frame.loc[frame.split == split].reset_index(drop=True)


def band_of(zenith_degrees):
    return np.searchsorted(EDGES, zenith_degrees, side="right")


def weight_table():
    band = band_of(table("train").zenith.to_numpy())
    raw = np.bincount(band, minlength=3) ** -0.5
    return raw / raw[band].mean()


def rotated(hits, angle):
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.concatenate([hits[:, :2] @ turn, hits[:, 2:]], axis=1)


def weighted_median(values, weights):
    """The first value, in rising order, at which half of the weight is reached."""
    running = np.cumsum(weights)
    return values[np.searchsorted(running, 0.5 * running[-1])]


def features(hits):
    whole = [(np.log(hits[:, 4].sum()) - SCALES["log_total_mean"]) / SCALES["log_total_std"],
             len(hits) / LIMIT]
    if len(hits) > LIMIT:
        hits = hits[np.argsort(-hits[:, 4], kind="stable")[:LIMIT]]
    hits = hits[np.argsort(hits[:, 3], kind="stable")]
    place, time, charge = hits[:, :3], hits[:, 3], hits[:, 4]
    place = (place - np.average(place, axis=0, weights=charge)) / SCALES["length"]
    time = (time - weighted_median(time, charge)) / SCALES["time"]
    charge = (np.log1p(charge) - SCALES["log_charge_mean"]) / SCALES["log_charge_std"]
    rows = np.column_stack([place, time, charge])
    missing = LIMIT - len(rows)
    rows = np.pad(rows, [(0, missing), (0, 0)])
    mask = np.arange(LIMIT) < len(hits)
    return rows.astype("float32"), mask.astype("float32"), np.asarray(whole, dtype="float32")


def unit(zenith, azimuth):
    flat = np.sin(zenith)
    return np.stack([flat * np.cos(azimuth), flat * np.sin(azimuth), np.cos(zenith)], axis=-1)
