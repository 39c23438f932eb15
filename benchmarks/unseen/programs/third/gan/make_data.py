"""writes glyphs.npz and requests/*.json (fixed seed)"""
import json
import numpy as np
rng = np.random.default_rng(8)
n = 40
img = np.zeros((n, 24, 24))
lab = np.array([i % 3 for i in range(n)])
yy, xx = np.mgrid[:24, :24]
for im, k in zip(img, lab):
    cy, cx = rng.uniform(9, 15, 2)
    r = rng.uniform(5, 9)
    if k == 0:
        m = np.abs(np.hypot(yy - cy, xx - cx) - r) < 2
    elif k == 1:
        m = (np.abs(yy - cy) < 2) | (np.abs(xx - cx) < 2)
    else:
        m = (np.abs(yy - cy) < r) & (np.abs(xx - cx) < r * 0.6)
    im += m * rng.uniform(120, 240) + rng.normal(8, 6, (24, 24))
np.savez_compressed("glyphs.npz", images=np.clip(img, 0, 255).astype(np.uint8), labels=lab)
for name, k in (("few", [0, 2]), ("many", [2, 1, 0, 1])):
    json.dump({"classes": k, "noise": [[round(float(v), 4) for v in rng.normal(0, 1, 12)] for _ in k]}, open(f"requests/{name}.json", "w"))
