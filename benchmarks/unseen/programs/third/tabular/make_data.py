"""writes bikes.csv and rows/*.csv (fixed seed)"""
import numpy as np
rng = np.random.default_rng(31)
WEATHER, DAY = ["clear", "mist", "rain", "snow"], ["workday", "weekend", "holiday"]
HEAD = "station,weather,day,hour,temp,humidity,wind,rented,returned,broken"


def row(station=None, day=None, labels=True):
    s = int(rng.integers(1, 8)) if station is None else station
    w, d, h = rng.choice(WEATHER, p=[0.5, 0.3, 0.15, 0.05]), day or rng.choice(DAY, p=[0.6, 0.3, 0.1]), int(rng.integers(0, 24))
    t, u, v = rng.normal(14, 8), rng.uniform(20, 100), rng.gamma(2, 4)
    base = 20 + 3 * s + 8 * np.sin((h - 6) / 24 * 2 * np.pi) + 0.8 * t - (10 if w in ("rain", "snow") else 0)
    y = [max(0, base + rng.normal(0, 6)), max(0, 0.9 * base + rng.normal(0, 5)), rng.poisson(1.5)]
    cells = [f"s{s}", w, d, h, f"{t:.2f}" if rng.uniform() > 0.08 else "", f"{u:.1f}", f"{v:.2f}"]
    return ",".join(map(str, cells + ([f"{y[0]:.1f}", f"{y[1]:.1f}", int(y[2])] if labels else [])))


with open("bikes.csv", "w") as f:
    f.write(HEAD + "\n" + "\n".join(row() for _ in range(150)) + "\n")
for name, day in (("monday", "workday"), ("holiday", "holiday")):
    with open(f"rows/{name}.csv", "w") as f:
        f.write(HEAD.rsplit(",", 3)[0] + "\n" + "\n".join(row(s, day, False) for s in (1, 4, 9)) + "\n")
