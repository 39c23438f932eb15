"""Air shower events: reading, cutting, centring, padding."""
import csv
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE / ".." / "data"
MOST = 12
BANDS = [20.0, 40.0]

scales = json.loads((DATA / "scales.json").read_text())


def read_events(split):
    hits = np.load(DATA / "hits.npy").astype(np.float64)
    found = []
    for row in csv.DictReader(open(DATA / "events.csv")):
        if row["split"] != split:
            continue
        first, count = int(row["first"]), int(row["count"])
        found.append({"hits": hits[first:first + count],
                      "zenith": np.radians(float(row["zenith"])),
                      "azimuth": np.radians(float(row["azimuth"])),
                      "log_energy": float(row["log_energy"])})
    return found


def band_weights():
    """One weight for each zenith band, of mean one over the training events."""
    bands = [int(np.digitize(np.degrees(e["zenith"]), BANDS)) for e in read_events("train")]
    counts = np.bincount(bands, minlength=len(BANDS) + 1)
    raw = 1.0 / np.sqrt(counts)
    return raw / np.mean([raw[b] for b in bands])


def spin(hits, angle):
    c, s = np.cos(angle), np.sin(angle)
    out = hits.copy()
    out[:, 0] = c * hits[:, 0] - s * hits[:, 1]
    out[:, 1] = s * hits[:, 0] + c * hits[:, 1]
    return out


def prepare(hits):
    total = hits[:, 4].sum()
    count = len(hits)
    strongest = np.argsort(-hits[:, 4], kind="stable")[:MOST]
    hits = hits[strongest]
    hits = hits[np.argsort(hits[:, 3], kind="stable")]
    q = hits[:, 4]
    centre = (hits[:, :3] * q[:, None]).sum(0) / q.sum()
    running = np.cumsum(q)
    t0 = hits[np.nonzero(running >= 0.5 * running[-1])[0][0], 3]
    feats = np.zeros((MOST, 5), dtype=np.float32)
    mask = np.zeros(MOST, dtype=np.float32)
    n = len(hits)
    feats[:n, :3] = (hits[:, :3] - centre) / scales["length"]
    feats[:n, 3] = (hits[:, 3] - t0) / scales["time"]
    feats[:n, 4] = (np.log1p(q) - scales["log_charge_mean"]) / scales["log_charge_std"]
    mask[:n] = 1
    whole = np.array([(np.log(total) - scales["log_total_mean"]) / scales["log_total_std"],
                      count / MOST], dtype=np.float32)
    return feats, mask, whole
