"""Reading the two tables of the beach watch."""
import csv
import datetime
import os

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
KINDS = ("plastic", "glass", "metal", "paper", "nets")
WEATHER = ("wind_ms", "rain_mm", "tide_m", "storm_days", "swell_m")
SUBSTRATES = ("sand", "shingle", "rock")
FIRST_HELD_OUT = datetime.date(2023, 7, 1)


def read(name):
    with open(os.path.join(HERE, name), newline="") as f:
        return list(csv.DictReader(f))


def day(text):
    return datetime.date.fromisoformat(text)


def beaches():
    return read("beaches.csv")


def surveys():
    rows = read("surveys.csv")
    for row in rows:
        row["day"] = day(row["date"])
        row["counts"] = np.array([float(row[k]) if row[k] else -1.0 for k in KINDS], dtype=np.float32)
    return rows


def training_rows(rows):
    return [row for row in rows if row["day"] < FIRST_HELD_OUT]


def held_out_rows(rows):
    return [row for row in rows if row["day"] >= FIRST_HELD_OUT]


def weather_of(row):
    return np.array([float(row[k]) for k in WEATHER])


def weather_statistics():
    """Mean and deviation of log(1 + x) over the training surveys."""
    table = np.log1p(np.stack([weather_of(row) for row in training_rows(surveys())]))
    return table.mean(axis=0), table.std(axis=0)
