"""Reading and cleaning of the raw recordings."""
import csv
import json

import numpy as np

from .config import DATA


def read_annotations(record):
    samples, symbols = [], []
    with open(DATA / "annotations.csv", newline="") as handle:
        for row in csv.DictReader(handle):
            if row["record"] == record:
                samples.append(int(row["sample"]))
                symbols.append(row["symbol"])
    return np.array(samples), symbols


def moving_average(signal, width):
    """Centred moving average along time with repeated edges."""
    half = width // 2
    padded = np.pad(signal, ((half, half), (0, 0)), mode="edge")
    kernel = np.ones(width) / width
    return np.stack([np.convolve(padded[:, lead], kernel, mode="valid") for lead in range(signal.shape[1])], axis=1)


def load_record(record, detrend):
    """Signal of a record in millivolt, without baseline wander, scaled to unit variance per lead."""
    with open(DATA / "records.json") as handle:
        info = json.load(handle)[record]
    adc = np.load(DATA / "records" / f"{record}.npy").astype(np.float64)
    signal = (adc - info["baseline"]) / info["gain"]
    signal = signal - moving_average(signal, detrend)
    return signal / (signal.std(axis=0) + 1e-8)


def rr_features(peaks, history):
    """Interval before, interval after (both over the record's mean), and interval before over the recent mean."""
    intervals = np.diff(peaks).astype(np.float64)
    mean = intervals.mean()
    features = np.empty((len(peaks), 3))
    for i in range(len(peaks)):
        before = intervals[i - 1] if i > 0 else mean
        after = intervals[i] if i < len(intervals) else mean
        recent = intervals[max(0, i - history):i]
        local = recent.mean() if len(recent) else mean
        features[i] = before / mean, after / mean, before / local
    return features - 1.0


def cut(signal, centre, before, after):
    index = np.clip(np.arange(centre - before, centre + after), 0, len(signal) - 1)
    return signal[index].T
