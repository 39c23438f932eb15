import numpy as np
from paddle.io import DataLoader, Dataset


def simulate(rows=220, seed=17):
    draw = np.random.RandomState(seed)
    cement = draw.lognormal(1.0, 0.8, rows)
    water = draw.uniform(-1, 3, rows)
    gravel = draw.normal(10, 2, rows)
    age = draw.exponential(4.0, rows)
    ash = draw.beta(2, 5, rows)
    method = draw.randint(0, 3, rows)
    sign = draw.rand(rows) < 0.5
    press = 3 * np.sin(water) + np.log1p(cement) + method + 4.0 * sign
    bend = 0.4 * gravel - np.sqrt(age) + np.where(method == 1, 6 * ash, 0.0) + 1.0 - 3.0 * sign
    noise = draw.normal(0, 0.3, (rows, 2))
    amounts = np.column_stack([np.log1p(cement), water, gravel, np.log1p(age), ash])
    return amounts, method, np.column_stack([press, bend]) + noise


def standard(known):
    """A function that does to other rows what makes these standard."""
    mean, deviation = known.mean(axis=0), known.std(axis=0, ddof=1)
    return lambda rows: (rows - mean) / deviation


def held_out(total, share=0.25):
    order = np.random.RandomState(13).permutation(total)
    cut = int(round(share * total))
    return {"val": order[:cut], "train": order[cut:]}


class Concrete(Dataset):
    def __init__(self, part):
        super().__init__()
        amounts, method, strength = simulate()
        parts = held_out(len(amounts))
        known, rows = parts["train"], parts[part]
        edges = np.quantile(amounts[known], [0.02, 0.98], axis=0)
        amounts = np.clip(amounts, edges[0], edges[1])
        amounts = standard(amounts[known])(amounts[rows])
        flags = (method[rows, None] == np.arange(3)).astype(float)
        self.inputs = np.hstack([amounts, flags]).astype("float32")
        self.targets = standard(strength[known])(strength[rows]).astype("float32")

    def __len__(self):
        return self.inputs.shape[0]

    def __getitem__(self, i):
        return self.inputs[i], self.targets[i]


def batches(part, size=16):
    learn = part == "train"
    return DataLoader(Concrete(part), batch_size=size, shuffle=learn, drop_last=learn)
