"""writes clouds.npz and scans/*.txt (fixed seed)"""
import numpy as np

rng = np.random.default_rng(42)


def shape(kind, n):
    t, u = rng.uniform(0, 2 * np.pi, n), rng.uniform(-1, 1, n)
    if kind == 0:
        s = np.sqrt(1 - u ** 2)
        p = np.stack([s * np.cos(t), s * np.sin(t), u], 1)
    elif kind == 1:
        p = np.stack([np.cos(t), np.sin(t), 1.5 * u], 1)
    elif kind == 2:
        p = rng.uniform(-1, 1, (n, 3))
        p[np.arange(n), rng.integers(0, 3, n)] = np.sign(rng.uniform(-1, 1, n))
    else:
        r = 1 + 0.3 * np.cos(2 * np.pi * rng.uniform(0, 1, n))
        p = np.stack([r * np.cos(t), r * np.sin(t), 0.3 * u], 1)
    return p * rng.uniform(0.5, 3) + rng.normal(0, 2, 3) + rng.normal(0, 0.02, (n, 3))


y = np.array([i * 7 % 4 for i in range(42)])
y[::9] = 0
np.savez("clouds.npz", xyz=np.stack([shape(k, 72) for k in y]).astype("float32"), y=y.astype("int64"),
         fold=np.array([0 if i % 3 else 1 for i in range(42)]))
for name, k in (("a", 1), ("b", 3)):
    np.savetxt(f"scans/{name}.txt", shape(k, 60), fmt="%.5f")
