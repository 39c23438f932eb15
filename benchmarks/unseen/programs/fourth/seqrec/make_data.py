"""Play lists of 30 listeners over 60 songs, negatives for training and ranking (fixed seed)."""
import os
import numpy as np

rng = np.random.default_rng(31)
USERS, ITEMS = 30, 60
genre = np.arange(1, ITEMS + 1) % 5
logs = []
for u in range(USERS):
    like = rng.dirichlet(np.ones(5) * 0.5)
    n = int(rng.integers(5, 22))
    seq, prev = [], None
    while len(seq) < n:
        g = prev if prev is not None and rng.random() < 0.5 else rng.choice(5, p=like)
        item = int(rng.choice(np.flatnonzero(genre == g))) + 1
        if not seq or item != seq[-1]:
            seq.append(item)
        prev = g
    logs.append(seq)
with open("plays.txt", "w") as f:
    rows = [(t * 10 + int(rng.integers(0, 9)), u + 1, item) for u, seq in enumerate(logs) for t, item in enumerate(seq)]
    rng.shuffle(rows)
    for t, u, item in rows:
        f.write(f"{u}\t{item}\t{t}\n")
with open("negatives.txt", "w") as f:
    for u, seq in enumerate(logs):
        rest = [i for i in range(1, ITEMS + 1) if i not in seq]
        train = rng.choice(rest, 12)
        rank = rng.choice(rest, 15, replace=False)
        f.write(f"{u + 1}|{' '.join(map(str, train))}|{' '.join(map(str, rank))}\n")
os.makedirs("sessions", exist_ok=True)
open("sessions/short.txt", "w").write(" ".join(map(str, logs[3][:4])) + "\n")
open("sessions/long.txt", "w").write(" ".join(map(str, (logs[5] + logs[8])[:19])) + "\n")
