"""The CSV file as arrays of one row an hour."""

import csv
from datetime import datetime
from pathlib import Path

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "data" / "demand.csv"


def read_table(path=FILE):
    table = {}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            time = datetime.fromisoformat(row["time"])
            series = table.setdefault(row["station"], {"hour": [], "weekday": [], "temperature": [], "demand": []})
            series["hour"].append(time.hour)
            series["weekday"].append(time.weekday())
            series["temperature"].append(float(row["temperature"]))
            series["demand"].append(float(row["demand"]) if row["demand"] else np.nan)
    return {name: {k: np.array(v, "float64") for k, v in s.items()} for name, s in table.items()}


class Scaler:
    """Of log demand for each station, and of the temperature; fitted to the hours of training."""

    def __init__(self, table, stations, hours):
        logs = [np.log1p(table[s]["demand"][:hours]) for s in stations]
        self.mean = np.array([np.nanmean(x) for x in logs])
        self.std = np.array([np.nanstd(x) for x in logs])
        temperature = np.concatenate([table[s]["temperature"][:hours] for s in stations])
        self.low, self.high = temperature.min(), temperature.max()

    def demand(self, x, series):
        return (np.log1p(x) - self.mean[series]) / self.std[series]

    def temperature(self, x):
        return 2 * (x - self.low) / (self.high - self.low) - 1

    def restore(self, x, series):
        return np.expm1(x * self.std[series] + self.mean[series])
