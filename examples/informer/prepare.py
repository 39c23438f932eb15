"""Make what the example needs and git does not keep: the table ``data/weekly.csv``, a window of it, and ``checkpoint.pth``.

    python examples/informer/prepare.py

The table has ETT's form, a column ``date`` and measured ones, the last called OT: the weekly CO2 on Mauna Loa (1958 to 2001) and the
monthly temperature of the Pacific, both from statsmodels. The same seed gives the same files; where they are there and what
they are made from is unchanged, nothing is done.
"""

import hashlib
import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent
TABLE = PROJECT / "data" / "weekly.csv"
WINDOW = PROJECT / "data" / "window.csv"
WEIGHTS = PROJECT / "checkpoint.pth"
STAMP = PROJECT / "data" / "prepared.json"
YEAR = 52  # weeks
EPOCHS = 3
SEED = 0


def table():
    """By week: the Pacific's temperature, how much CO2 grew in a year, and its season: the distance from the mean of a year."""
    import numpy as np
    import pandas as pd
    from statsmodels.datasets import co2, elnino

    air = co2.load_pandas().data["co2"].interpolate()
    months = elnino.load_pandas().data.set_index("YEAR").to_numpy().ravel()
    sea = pd.Series(months, index=pd.date_range("1950-01-15", periods=len(months), freq="MS"))
    sea = pd.Series(np.interp(air.index.to_julian_date(), sea.index.to_julian_date(), sea.to_numpy()), index=air.index)
    columns = {"sea": sea, "growth": air.diff(YEAR), "OT": air - air.rolling(YEAR, center=True).mean()}
    return pd.DataFrame(columns).dropna().rename_axis("date").round(3)


def write_tables():
    """The whole table, and its last window: 48 rows that are seen and 12 to be forecast."""
    rows = table()
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(TABLE)
    rows.tail(60).to_csv(WINDOW)


def train_weights(path):
    """Train the reference from scratch; the weights of its best epoch are the example's checkpoint."""
    sys.path.insert(0, str(PROJECT / "reference"))
    import reference
    import torch
    from informer import train
    from informer.model import Informer

    from paralign.trainlog import TrainLog

    torch.set_num_threads(1)  # sums are rounded by how they are shared among threads: the same weights wherever this runs
    torch.manual_seed(SEED)
    loaders = {split: reference.build_dataloader(split) for split in ("train", "val")}
    model = Informer()
    unfinished = path.with_suffix(".tmp")
    with TrainLog(None, every=25, style="print") as log:
        train.fit(model, train.build_optimizer(model), loaders, log, EPOCHS, keep=lambda best: torch.save(best.state_dict(), unfinished))
    unfinished.replace(path)


def digest(paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def state():
    """Digests of what the outputs are made from and of the outputs themselves."""
    return json.dumps(
        {
            "sources": digest([PROJECT / "prepare.py", *(PROJECT / "reference").rglob("*.py")]),
            "outputs": digest([*(PROJECT / "data").glob("*.csv"), *PROJECT.glob(WEIGHTS.name)]),
        }
    )


def main():
    if STAMP.exists() and STAMP.read_text() == state():
        print("data/ and the weights are there and up to date")
        return
    write_tables()
    train_weights(WEIGHTS)
    STAMP.write_text(state())


if __name__ == "__main__":
    main()
