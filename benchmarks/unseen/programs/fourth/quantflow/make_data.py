"""Hourly sales of three stores with holes (fixed seed): sales.csv and two request files."""
import os
import numpy as np

rng = np.random.default_rng(404)
rows = []


def series(n, store):
    t = np.arange(n)
    temp = 12 + 8 * np.sin(2 * np.pi * (t - 9) / 24) + rng.normal(0, 1.5, n)
    level = (18, 55, 140)[store]
    sales = level * (1 + 0.4 * np.sin(2 * np.pi * (t - 7 - 3 * store) / 24) + 0.01 * temp) + rng.gamma(2.0, level * 0.06, n)
    return temp, sales


def line(store, t, sales, temp, hole):
    return f"{store},{t},{'' if hole else format(sales, '.2f')},{temp:.1f}\n"


with open("sales.csv", "w") as f:
    f.write("store,hour,sales,temp\n")
    for store in range(3):
        temp, sales = series(150, store)
        for t in range(150):
            f.write(line(store, t, sales[t], temp[t], t > 0 and rng.random() < 0.06))
os.makedirs("requests", exist_ok=True)
for k, store in enumerate((1, 2)):
    temp, sales = series(30, store)
    with open(f"requests/r{k}.csv", "w") as f:
        f.write("store,hour,sales,temp\n")
        for t in range(30):
            f.write(line(store, t + 13, sales[t], temp[t], t >= 24 or t == 11))
