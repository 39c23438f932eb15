"""Hourly tables without pandas: dicts in, arrays out."""
import csv
import math
import os

import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "data")
HOURS = 288
TRAIN_HOURS = 216
PAST, AHEAD, STRIDE = 24, 6, 6
ZONE_ID = {"centre": 0, "residential": 1, "university": 2, "waterfront": 3}
KNOWN_COLS = [2, 3, 5, 6, 7]


def read(name):
    with open(os.path.join(DATA, name), newline="") as f:
        return list(csv.DictReader(f))


def carry_forward(values, limit=None):
    """Last known value for at most `limit` hours; nan where there is none."""
    out, last, age = [], math.nan, 0
    for v in values:
        if not math.isnan(v):
            last, age = v, 0
        else:
            age += 1
        out.append(last if limit is None or age <= limit else math.nan)
    return np.array(out)


def weather_table():
    temp, rain = np.full(HOURS, np.nan), np.full(HOURS, np.nan)
    for r in read("weather.csv"):
        h = int(r["hour"])
        temp[h] = float(r["temp"]) if r["temp"] else np.nan
        rain[h] = float(r["rain"]) if r["rain"] else np.nan
    return carry_forward(temp), carry_forward(rain)


def fill_counts(values):
    return np.nan_to_num(carry_forward(values, limit=2), nan=0.0)


def load_stations():
    """station -> dict(capacity, zone, departures, arrivals, seen, temp, rain, hour)."""
    temp, rain = weather_table()
    book = {}
    for r in read("stations.csv"):
        book[r["station"]] = {
            "capacity": float(r["capacity"]), "zone": ZONE_ID[r["zone"]], "temp": temp, "rain": rain,
            "hour": np.arange(HOURS), "departures": np.full(HOURS, np.nan), "arrivals": np.full(HOURS, np.nan),
        }
    for r in read("counts.csv"):
        s, h = book[r["station"]], int(r["hour"])
        s["departures"][h] = float(r["departures"])
        s["arrivals"][h] = float(r["arrivals"])
    for s in book.values():
        s["seen"] = 1.0 - np.isnan(s["departures"])
        s["departures"], s["arrivals"] = fill_counts(s["departures"]), fill_counts(s["arrivals"])
    return book


def raw_matrix(s):
    return np.stack([np.log1p(s["departures"]), np.log1p(s["arrivals"]), s["temp"], np.sqrt(s["rain"])], axis=1)


def make_scaler(book):
    pool = np.concatenate([raw_matrix(s)[:TRAIN_HOURS] for s in book.values()])
    q1, centre, q3 = np.percentile(pool, [25, 50, 75], axis=0)
    width = np.maximum(q3 - q1, 0.05)

    def scaler(m):
        return np.clip((m - centre) / width, -4, 4)

    return scaler


def feature_matrix(s, scaler):
    hour = s["hour"]
    angle = 2 * np.pi * (hour % 24) / 24
    weekend = ((hour // 24) % 7 >= 5).astype(float)
    extra = np.stack([s["seen"], np.sin(angle), np.cos(angle), weekend], axis=1)
    return np.hstack([scaler(raw_matrix(s)), extra]).astype("float32")


def window_starts(split):
    first = 0 if split == "train" else TRAIN_HOURS - PAST
    end = TRAIN_HOURS if split == "train" else HOURS
    return range(first, end - PAST - AHEAD + 1, STRIDE)


def make_windows(split):
    book = load_stations()
    scaler = make_scaler(book)
    items = []
    for s in book.values():
        f = feature_matrix(s, scaler)
        target = (s["departures"] / s["capacity"]).astype("float32")
        for a in window_starts(split):
            b, c = a + PAST, a + PAST + AHEAD
            labels = {"y": target[b:c], "seen": s["seen"][b:c].astype("float32"), "cap": np.float32(s["capacity"])}
            items.append((f[a:b], f[b:c][:, KNOWN_COLS], np.int64(s["zone"]), labels))
    return items


def sampling_weights(items):
    zones = [int(it[2]) for it in items]
    load = np.array([it[3]["y"].mean() for it in items], dtype="float64")
    base = load.mean()
    w = np.array([math.sqrt(len(zones) / zones.count(z)) * (0.5 + l / base) for z, l in zip(zones, load)])
    return w / w.sum()
