"""writes words.npz, pairs.csv, clips/*.npy (fixed seed)"""
import numpy as np
rng = np.random.default_rng(3)
SR, N = 8000, 1800


def word(k, n=N):
    t = np.arange(n) / SR
    f0 = [180, 240, 320, 410][k] * rng.uniform(0.93, 1.07)
    sweep = [900, -600, 1500, 0][k]
    phase = 2 * np.pi * (f0 * t + 0.5 * sweep * t ** 2)
    x = np.sin(phase) + 0.5 * np.sin(3 * phase + k) + 0.3 * np.sin((5 + k) * phase)
    env = np.exp(-((t - rng.uniform(0.08, 0.14)) / 0.06) ** 2)
    x = x * env + rng.normal(0, 0.02, n)
    return np.round(x * rng.uniform(3000, 9000)).astype(np.int16)


y = np.array([i % 4 for i in range(28)])
np.savez_compressed("words.npz", wave=np.stack([word(k) for k in y]), word=y, names=np.array(["left", "right", "stop", "go"]))
rows = []
for i in range(60):
    a = int(rng.integers(0, 28))
    same = rng.uniform() < 0.45
    pool = [j for j in range(28) if (y[j] == y[a]) == same and j != a]
    rows.append((a, int(rng.choice(pool)), "train" if i < 40 else "test"))
with open("pairs.csv", "w") as f:
    f.write("first,second,part\n" + "".join("%d,%d,%s\n" % r for r in rows))
np.save("clips/left.npy", word(0, 1500))
np.save("clips/stop.npy", word(2, 2100))
