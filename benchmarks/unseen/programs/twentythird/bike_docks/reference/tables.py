"""counts x weather x stations -> hourly frame -> windows."""
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).resolve().parent.parent / "data"
PAST, AHEAD, STRIDE = 24, 6, 6
TRAIN_HOURS = 216
ZONES = ["centre", "residential", "university", "waterfront"]
SCALED = ["departures", "arrivals", "temp", "rain"]


def hourly():
    stations = pd.read_csv(DATA / "stations.csv")
    weather = pd.read_csv(DATA / "weather.csv")
    counts = pd.read_csv(DATA / "counts.csv")
    grid = pd.MultiIndex.from_product([stations["station"], range(288)], names=["station", "hour"]).to_frame(index=False)
    weather = weather.set_index("hour").reindex(range(288)).ffill().reset_index()
    df = grid.merge(counts, on=["station", "hour"], how="left").merge(weather, on="hour", how="left")
    df = df.merge(stations, on="station", how="left")
    df["seen"] = df["departures"].notna().astype("float64")
    by = df.groupby("station", sort=False)
    for c in ("departures", "arrivals"):
        df[c] = by[c].ffill(limit=2).fillna(0.0)
    return df


def transform(df):
    out = pd.DataFrame(index=df.index)
    out["departures"] = np.log1p(df["departures"])
    out["arrivals"] = np.log1p(df["arrivals"])
    out["temp"] = df["temp"]
    out["rain"] = np.sqrt(df["rain"])
    return out


def fit_scaler(df):
    t = transform(df[df["hour"] < TRAIN_HOURS])
    med = t.median()
    iqr = t.quantile(0.75) - t.quantile(0.25)
    return med, iqr.clip(lower=0.05)


def features(df, scaler):
    med, iqr = scaler
    x = ((transform(df) - med) / iqr)[SCALED].clip(-4, 4)
    x["seen"] = df["seen"]
    angle = 2 * np.pi * (df["hour"] % 24) / 24
    x["sin"], x["cos"] = np.sin(angle), np.cos(angle)
    x["weekend"] = ((df["hour"] // 24) % 7 >= 5).astype("float64")
    return x


KNOWN = ["temp", "rain", "sin", "cos", "weekend"]


def windows(split):
    df = hourly()
    scaler = fit_scaler(df)
    x = features(df, scaler)
    samples = []
    for name, rows in df.groupby("station", sort=False):
        f = x.loc[rows.index]
        lo, hi = (0, TRAIN_HOURS) if split == "train" else (TRAIN_HOURS - PAST, 288)
        zone = ZONES.index(rows["zone"].iloc[0])
        cap = float(rows["capacity"].iloc[0])
        for s in range(lo, hi - PAST - AHEAD + 1, STRIDE):
            past, future = slice(s, s + PAST), slice(s + PAST, s + PAST + AHEAD)
            samples.append({
                "past": f.iloc[past].to_numpy("float32"),
                "future": f[KNOWN].iloc[future].to_numpy("float32"),
                "zone": zone,
                "y": (rows["departures"].iloc[future] / cap).to_numpy("float32"),
                "seen": rows["seen"].iloc[future].to_numpy("float32"),
                "cap": cap,
            })
    return samples


def zone_weights(samples):
    z = np.array([s["zone"] for s in samples])
    share = np.bincount(z, minlength=len(ZONES)) / len(z)
    load = np.array([s["y"].mean() for s in samples], dtype="float64")
    w = (1.0 / share[z]) ** 0.5 * (0.5 + load / load.mean())
    return w / w.sum()
