"""Tables of weather, soil and yields -> samples."""
import csv
import math
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

DATA = Path(__file__).resolve().parent.parent / "data"
WEATHER = ["tmin", "tmax", "rain", "radiation", "humidity"]
SOIL = ["sand", "clay", "ph"]


def rows(name):
    with open(DATA / name, newline="") as f:
        return list(csv.DictReader(f))


def fill_forward(column):
    """Gaps take the last value before them; leading gaps the first one."""
    column = column.copy()
    known = np.flatnonzero(~np.isnan(column))
    column[: known[0]] = column[known[0]]
    for i in range(1, len(column)):
        if np.isnan(column[i]):
            column[i] = column[i - 1]
    return column


def growing_degrees(tmin, tmax, base, cap):
    mean = (np.minimum(tmax, cap) + np.maximum(tmin, base)) / 2.0
    return np.cumsum(np.maximum(mean - base, 0.0) * 7.0)


class Tables:
    """All tables once, with the statistics of the training years."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.weather, self.soil = {}, {}
        gaps = {}
        for row in rows("weather.csv"):
            key = (row["county"], int(row["year"]))
            gaps.setdefault(key, np.full((cfg["weeks"], len(WEATHER)), np.nan))
            gaps[key][int(row["week"])] = [float(row[n]) if row[n] else math.nan for n in WEATHER]
        for key, table in gaps.items():
            table = np.stack([fill_forward(table[:, i]) for i in range(table.shape[1])], axis=1)
            gdd = growing_degrees(table[:, 0], table[:, 1], **cfg["gdd"])
            table[:, 2] = np.log1p(table[:, 2])
            self.weather[key] = np.concatenate([table, gdd[:, None]], axis=1)
        for row in rows("soil.csv"):
            self.soil.setdefault(row["county"], []).append([float(row[n]) for n in SOIL])
        self.soil = {k: np.array(v) for k, v in self.soil.items()}
        train = set(cfg["train_years"])
        seen = np.concatenate([v for k, v in self.weather.items() if k[1] in train])
        self.weather_mean, self.weather_std = seen.mean(0), seen.std(0, ddof=1)
        soils = np.concatenate(list(self.soil.values()))
        self.soil_mean, self.soil_std = soils.mean(0), soils.std(0, ddof=1)
        self.records = [(r["county"], int(r["year"]), r["crop"], float(r["tonnes_per_ha"])) for r in rows("yields.csv")]
        self.trend = {}
        for crop in cfg["crops"]:
            known = [(y, t) for _, y, c, t in self.records if c == crop and y in train]
            years, tonnes = np.array(known).T
            slope, level = np.polyfit(years - 2010.0, tonnes, 1)
            rest = tonnes - (slope * (years - 2010.0) + level)
            self.trend[crop] = (slope, level, math.sqrt((rest**2).mean()))

    def features(self, county, year, crop):
        weather = (self.weather[county, year] - self.weather_mean) / self.weather_std
        soil = (self.soil[county] - self.soil_mean) / self.soil_std
        return weather.astype("float32"), soil.astype("float32"), self.cfg["crops"].index(crop)

    def target(self, year, crop, tonnes):
        slope, level, spread = self.trend[crop]
        return (tonnes - slope * (year - 2010.0) - level) / spread

    def tonnes(self, year, crop, mean, scale):
        slope, level, spread = self.trend[crop]
        return mean * spread + slope * (year - 2010.0) + level, scale * spread


class YieldSet(Dataset):
    def __init__(self, cfg, split):
        self.tables = Tables(cfg)
        years = set(cfg[split + "_years"])
        self.records = [r for r in self.tables.records if r[1] in years]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        county, year, crop, tonnes = self.records[index]
        weather, soil, crop_id = self.tables.features(county, year, crop)
        return {
            "weather": torch.from_numpy(weather),
            "soil": torch.from_numpy(soil),
            "crop": torch.tensor(crop_id),
            "labels": torch.tensor(self.tables.target(year, crop, tonnes), dtype=torch.float32),
        }


def loader(cfg, split):
    return DataLoader(YieldSet(cfg, split), batch_size=cfg["batch_size"], shuffle=False, drop_last=split == "train")
