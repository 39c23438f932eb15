"""Draws the pictures: 24 fields of cells, 45 x 51 pixels, as cell_NN.npz (image uint8, instances int32) and index.json."""
import json
import os

import numpy as np
from scipy.ndimage import gaussian_filter

here = os.path.dirname(os.path.abspath(__file__))
draw = np.random.RandomState(2024)
H, W = 45, 51
yy, xx = np.mgrid[:H, :W]
index = {"train": [], "val": []}
for n in range(24):
    inst = np.zeros((H, W), "int32")
    light = np.zeros((H, W))
    for c in range(1, draw.randint(4, 9)):
        cy, cx = draw.uniform(4, H - 4), draw.uniform(4, W - 4)
        a, b, t = draw.uniform(3, 8), draw.uniform(3, 6), draw.uniform(0, np.pi)
        u = (xx - cx) * np.cos(t) + (yy - cy) * np.sin(t)
        v = -(xx - cx) * np.sin(t) + (yy - cy) * np.cos(t)
        r = (u / a) ** 2 + (v / b) ** 2
        inside = (r < 1) & (inst == 0)
        inst[inside] = c
        light[inside] = draw.uniform(0.45, 0.9) * (1 - 0.4 * r[inside])
    image = gaussian_filter(light, 0.9) + 0.12 + 0.05 * xx / W + 0.04 * draw.normal(size=(H, W))
    name = f"cell_{n:02d}.npz"
    np.savez(os.path.join(here, name), image=np.clip(image * 255, 0, 255).astype("uint8"), instances=inst)
    index["train" if n < 16 else "val"].append(name)
for split in index:
    index[split] = [index[split][i] for i in draw.permutation(len(index[split]))]
json.dump(index, open(os.path.join(here, "index.json"), "w"), indent=1)
