"""Columns of the two tables, as numpy arrays."""
import csv
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data"
LITTER = ["plastic", "glass", "metal", "paper", "nets"]
READINGS = ["wind_ms", "rain_mm", "tide_m", "storm_days", "swell_m"]
GROUNDS = {"sand": 0, "shingle": 1, "rock": 2}
CUT = np.datetime64("2023-07-01")


def columns(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    return {name: [r[i] for r in rows[1:]] for i, name in enumerate(rows[0])}


def numbers(values, missing=-1.0):
    return np.array([missing if v == "" else float(v) for v in values])


class Coast:
    """The beaches."""

    def __init__(self):
        table = columns(DATA / "beaches.csv")
        self.names = table["beach"]
        self.lat, self.lon = np.radians(numbers(table["lat"])), np.radians(numbers(table["lon"]))
        self.facing = np.radians(numbers(table["facing_deg"]))
        self.ground = np.array([GROUNDS[g] for g in table["substrate"]])
        raw = np.stack([numbers(table["river_km"]), numbers(table["visitors"]) / 1000.0], axis=1)
        logs = np.log1p(raw)
        self.traits = (logs - logs.mean(0)) / logs.std(0)

    def kilometres(self):
        a = self.lat[:, None] - self.lat
        b = self.lon[:, None] - self.lon
        h = np.sin(a / 2) ** 2 + np.cos(self.lat[:, None]) * np.cos(self.lat) * np.sin(b / 2) ** 2
        return 12742.0 * np.arcsin(np.sqrt(h.clip(0, 1)))


class Log:
    """All surveys, in the order of the file."""

    def __init__(self, coast):
        table = columns(DATA / "surveys.csv")
        self.when = np.array(table["date"], dtype="datetime64[D]")
        self.where = np.array([coast.names.index(b) for b in table["beach"]])
        self.found = np.stack([numbers(table[k]) for k in LITTER], axis=1)
        self.air = np.stack([numbers(table[k]) for k in READINGS], axis=1)
        self.wind_from = np.radians(numbers(table["wind_from"]))
        self.length = numbers(table["length_m"])
        self.hours = numbers(table["minutes"]) * numbers(table["volunteers"]) / 60.0
        early = self.when < CUT
        self.rows = {"train": np.flatnonzero(early), "val": np.flatnonzero(~early)}
        logs = np.log1p(self.air[early])
        self.mean, self.std = logs.mean(0), logs.std(0)

    def density(self):
        """log(1 + count per hundred metres), nought where nobody counted."""
        known = self.found >= 0
        rate = np.where(known, self.found, 0.0) * 100.0 / self.length[:, None]
        return np.log1p(rate) * known
