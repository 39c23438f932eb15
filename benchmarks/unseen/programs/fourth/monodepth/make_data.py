"""Writes the toy split of indoor scenes (fixed seed): scenes.npz, train.txt, val.txt, shots/*.npy."""
import os
import numpy as np

rng = np.random.default_rng(1207)
N, H, W = 14, 36, 48
yy, xx = np.mgrid[0:H, 0:W]
rgb = np.zeros((N, H, W, 3), "uint8")
depth = np.zeros((N, H, W), "uint16")


def scene():
    wall = rng.uniform(3.0, 8.5)
    d = np.minimum(wall, 1.1 + 8.0 * (H - yy) / H)
    col = np.stack([120 + 60 * np.cos(xx / 9.0 + rng.uniform(0, 6)), 90 + 2.0 * yy, 70 + 1.5 * xx], -1)
    for _ in range(4):
        y0, x0 = rng.integers(0, H - 10), rng.integers(0, W - 12)
        h, w = rng.integers(6, 16), rng.integers(6, 18)
        z = rng.uniform(0.7, wall)
        box = (yy >= y0) & (yy < y0 + h) & (xx >= x0) & (xx < x0 + w)
        d = np.where(box, np.minimum(d, z), d)
        col[box] = rng.uniform(20, 235, 3) * (1.0 / (0.6 + 0.1 * z))
    d = d * (1 + 0.01 * rng.standard_normal(d.shape))
    holes = rng.random(d.shape) < 0.08
    d[holes] = 0
    far = rng.random(d.shape) < 0.02
    d[far] = 11.5
    return np.clip(col + rng.normal(0, 6, col.shape), 0, 255).astype("uint8"), (d * 1000).astype("uint16")


for i in range(N):
    rgb[i], depth[i] = scene()
np.savez_compressed("scenes.npz", rgb=rgb, depth=depth)
with open("train.txt", "w") as f:
    for i in range(9):
        f.write(f"{i} {'flip' if i % 3 == 1 else 'keep'} {rng.uniform(0.8, 1.25):.3f}\n")
with open("val.txt", "w") as f:
    for i in range(9, N):
        f.write(f"{i} keep 1.000\n")
os.makedirs("shots", exist_ok=True)
for k in range(2):
    np.save(f"shots/shot{k}.npy", scene()[0])
