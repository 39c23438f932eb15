import numpy as np
from paddle.io import Dataset


def read(path):
    with open(path) as f:
        names = f.readline().strip().split(",")
        values = np.loadtxt(f, delimiter=",")
    return names, values


class DiabetesTable(Dataset):
    limit = 2.5

    def __init__(self, path, training):
        super().__init__()
        names, values = read(path)
        held_out = np.arange(len(values)) % 5 == 0
        sex = names.index("sex")
        cols = [i for i, n in enumerate(names) if n not in ("sex", "target")]
        fit = values[~held_out]
        mu = fit[:, cols].mean(axis=0)
        sd = fit[:, cols].std(axis=0, ddof=1)
        use = fit if training else values[held_out]
        z = (use[:, cols] - mu) / sd
        self.x = np.clip(z, -self.limit, self.limit).astype("float32")
        self.sex = use[:, sex].astype("int64") - 1
        t = fit[:, -1]
        self.y = ((use[:, -1] - t.mean()) / t.std(ddof=1)).astype("float32")

    def __getitem__(self, i):
        return self.x[i], self.sex[i], self.y[i]

    def __len__(self):
        return len(self.x)
