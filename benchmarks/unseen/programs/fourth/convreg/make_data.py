"""Small pictures of textures in six classes (fixed seed): textures.npz and single pictures."""
import os
import numpy as np

rng = np.random.default_rng(99)
SIZE = 28
yy, xx = np.mgrid[0:SIZE, 0:SIZE]


def picture(kind):
    f, p = rng.uniform(0.4, 0.9), rng.uniform(0, 6)
    base = [
        np.sin(f * xx + p), np.sin(f * yy + p), np.sin(f * (xx + yy) + p),
        np.sin(f * xx + p) * np.sin(f * yy), np.sin(f * np.hypot(xx - 14, yy - 14) + p), rng.standard_normal((SIZE, SIZE)),
    ][kind]
    tint = rng.uniform(0.5, 1.2, 3) * [60, 50, 45]
    img = 110 + base[..., None] * tint + rng.normal(0, 9, (SIZE, SIZE, 3))
    return np.clip(img, 0, 255).astype("uint8")


labels = np.array([i % 6 for i in range(42)])
rng.shuffle(labels)
images = np.stack([picture(k) for k in labels])
np.savez_compressed("textures.npz", images=images, labels=labels.astype("uint8"))
os.makedirs("single", exist_ok=True)
for i, k in enumerate((2, 4)):
    np.save(f"single/p{i}.npy", picture(k))
