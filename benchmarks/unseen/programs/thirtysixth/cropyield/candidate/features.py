"""From the three csv tables to arrays."""
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from paddle.io import DataLoader, Dataset

FOLDER = Path(__file__).resolve().parents[1] / "data"


def read(name):
    with open(FOLDER / name, newline="") as f:
        yield from csv.DictReader(f)


def number(text):
    return float(text) if text else np.nan


def carry_on(table):
    """Fill each column's gaps with the last known value (a leading gap: with the first)."""
    known = ~np.isnan(table)
    last = np.maximum.accumulate(np.where(known, np.arange(len(table))[:, None], -1), axis=0)
    last = np.where(last < 0, known.argmax(axis=0)[None], last)
    return np.take_along_axis(table, last, axis=0)


class Almanac:
    """What is known of every county and season, standardised by the years of fitting."""

    def __init__(self, options):
        self.options = options
        self.names = list(options["crop_names"])
        fit = options["fit_years"]

        raw = defaultdict(dict)
        for r in read("weather.csv"):
            raw[r["county"], int(r["year"])][int(r["week"])] = [
                number(r[k]) for k in ("tmin", "tmax", "rain", "radiation", "humidity")
            ]
        self.seasons = {
            key: self._season(np.array([weeks[k] for k in range(options["season_weeks"])])) for key, weeks in raw.items()
        }
        fitted = np.vstack([s for (_, year), s in self.seasons.items() if year in fit])
        self.season_scale = fitted.mean(axis=0), fitted.std(axis=0, ddof=1)

        ground = defaultdict(list)
        for r in read("soil.csv"):
            ground[r["county"]].append([number(r[k]) for k in ("sand", "clay", "ph")])
        self.ground = {county: np.array(layers) for county, layers in ground.items()}
        every = np.vstack(list(self.ground.values()))
        self.ground_scale = every.mean(axis=0), every.std(axis=0, ddof=1)

        self.harvests = [(r["county"], int(r["year"]), r["crop"], number(r["tonnes_per_ha"])) for r in read("yields.csv")]
        self.lines = {name: self._line(name, fit) for name in self.names}

    def _season(self, table):
        table = carry_on(table)
        low, high = table[:, 0], table[:, 1]
        degrees = (np.clip(high, None, self.options["degree_cap"]) + np.clip(low, self.options["degree_base"], None)) / 2
        warmth = np.clip(degrees - self.options["degree_base"], 0, None).cumsum() * 7.0
        return np.column_stack([low, high, np.log1p(table[:, 2]), table[:, 3:], warmth])

    def _line(self, name, fit):
        points = np.array([(year - 2010, tonnes) for _, year, crop, tonnes in self.harvests if crop == name and year in fit])
        slope, level = np.polyfit(points[:, 0], points[:, 1], 1)
        residual = points[:, 1] - np.polyval([slope, level], points[:, 0])
        return slope, level, np.sqrt(np.mean(residual**2))

    def expected(self, year, crop):
        slope, level, spread = self.lines[crop]
        return level + slope * (year - 2010), spread

    def describe(self, county, year, crop):
        mean, std = self.season_scale
        season = (self.seasons[county, year] - mean) / std
        mean, std = self.ground_scale
        ground = (self.ground[county] - mean) / std
        return season.astype(np.float32), ground.astype(np.float32), np.int64(self.names.index(crop))


class Harvests(Dataset):
    def __init__(self, options, split):
        super().__init__()
        self.almanac = Almanac(options)
        years = options["fit_years" if split == "train" else "test_years"]
        self.items = [h for h in self.almanac.harvests if h[1] in years]

    def __getitem__(self, i):
        county, year, crop, tonnes = self.items[i]
        season, ground, which = self.almanac.describe(county, year, crop)
        centre, spread = self.almanac.expected(year, crop)
        return {"weather": season, "soil": ground, "crop": which, "labels": np.float32((tonnes - centre) / spread)}

    def __len__(self):
        return len(self.items)


def batches(options, split):
    return DataLoader(
        Harvests(options, split), batch_size=options["batch"], shuffle=False, drop_last=split == "train", num_workers=0
    )
