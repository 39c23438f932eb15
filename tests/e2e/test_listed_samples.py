"""Data sets that are plain lists, made at once from files; what a file holds that both sides read is right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paralign.cli import main

REFERENCE = """
import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent

class Days:
    def __init__(self, split):
        self.days = json.loads((HERE / f"{split}.json").read_text())
        rows = np.array([[item["tons"], item["size"]] for day in json.loads((HERE / "train.json").read_text()) for item in day])
        self.mean, self.std = rows.mean(axis=0), rows.std(axis=0, ddof=1)

    def __len__(self):
        return len(self.days)

    def __getitem__(self, number):
        rows = [(np.array([item["tons"], item["size"]]) - self.mean) / self.std for item in self.days[number]]
        codes = np.array([[ord(letter) for letter in item["name"]] for item in self.days[number]])
        known = codes != 45
        both = known.astype("int64") @ known.T.astype("int64")
        same = np.array([[(one == two)[one != 45].sum() for two in codes] for one in codes])
        alike = same / np.maximum(1, both)
        return np.array(rows, dtype="float32"), (1.0 / (alike >= 0.6).sum(axis=1)).astype("float32")

def build_dataset(split):
    return Days(split)

def build_model():
    return lambda x: x
"""

CANDIDATE = """
import json
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent

def load(split):
    return json.loads((HERE / f"{split}.json").read_text())

def statistics(days):
    sizes = np.array([(item["tons"], item["size"]) for day in days for item in day], dtype="float64")
    return sizes.mean(0), sizes.std(0, ddof=1)

def weights_of(day):
    codes = np.array([[ord(letter) for letter in item["name"]] for item in day], dtype="int64")
    filled = codes != 45
    shared = filled[:, None] & filled[None, :]
    equal = ((codes[:, None] == codes[None, :]) & shared).sum(axis=2)
    alike = equal / np.maximum(shared.sum(axis=2), 1) >= 0.6
    return (1.0 / alike.sum(axis=1)).astype("float32")

def build_dataset(split):
    training, days = load("train"), load(split)
    mean, std = statistics(training)
    table = [np.array([[item["tons"], item["size"]] for item in day]) for day in days]
    return [(((rows - mean) / std).astype("float32"), weights_of(day)) for rows, day in zip(table, days)]

def build_model():
    return lambda x: x
"""

PROJECT = (
    '[reference]\nmodule = "listed_reference.py"\nframework = "numpy"\n[candidate]\nmodule = "listed_candidate.py"\nframework = "numpy"\n'
    '[inputs]\nshape = [2, 3]\n[data]\nsplits = ["train", "val"]\n'
)


def checked(folder, capsys, old="", new=""):
    draw = np.random.RandomState(0)
    for split, count in (("train", 9), ("val", 4)):
        days = [
            [
                {"tons": round(float(draw.rand() * 20), 1), "size": int(draw.randint(20, 99)), "name": "".join(draw.choice(list("ab-"), 6))}
                for _ in range(8)
            ]
            for _ in range(count)
        ]
        (folder / f"{split}.json").write_text(json.dumps(days, indent=1))
    assert not old or CANDIDATE.count(old) == 1
    (folder / "listed_reference.py").write_text(REFERENCE)
    (folder / "listed_candidate.py").write_text(CANDIDATE.replace(old, new) if old else CANDIDATE)
    (folder / "paralign.toml").write_text(PROJECT)
    main(["check", str(folder), "data", "--json"])
    return json.loads(capsys.readouterr().out)["stages"][0]


def test_a_right_port_has_none(tmp_path, capsys):
    assert checked(tmp_path, capsys)["verdict"] == "aligned"


@pytest.mark.parametrize(
    ("old", "new"),
    [("statistics(training)", "statistics(days)"), ("((codes[:, None] == codes[None, :]) & shared)", "(codes[:, None] == codes[None, :])")],
    ids=["rows of the split", "samples of a list"],
)
def test_the_line_of_a_data_set_that_is_a_list(tmp_path, capsys, old, new):
    stage = checked(tmp_path, capsys, old, new)
    assert stage["verdict"] == "diverged"
    file, _, line = stage["divergence"]["candidate"]["source"].rpartition(":")
    assert file.endswith("listed_candidate.py"), "not the file of data that both sides read"
    assert new in (tmp_path / "listed_candidate.py").read_text().splitlines()[int(line) - 1]


def test_a_wrong_entry_of_a_file_that_both_read_is_named_where_it_is_read(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{\n "scale": 0.37,\n "other": 0.59,\n "shift": 0.21\n}\n')
    reference = """
import json
from pathlib import Path
import numpy as np
CFG = json.loads((Path(__file__).parent / "config.json").read_text())
class Days:
    def __init__(self):
        self.days = np.random.RandomState(1).rand(6, 8, 3)
        self.scale = CFG["scale"]
    def __len__(self):
        return 6
    def __getitem__(self, number):
        return (self.days[number] * self.scale + CFG["shift"]).astype("float32")
def build_dataset(split):
    return Days()
def build_model():
    return lambda x: x
"""
    helper = (
        'def factor(cfg, k):\n    return cfg["other"] * k  # HERE\n\ndef scaled(day):\n    return day * factor(CFG, 1.0) + CFG["shift"]\n'
    )
    candidate = reference.replace("class Days", f"{helper}class Days").replace(
        'self.days[number] * self.scale + CFG["shift"]', "scaled(self.days[number])"
    )
    (tmp_path / "listed_reference.py").write_text(reference)
    (tmp_path / "listed_candidate.py").write_text(candidate)
    (tmp_path / "paralign.toml").write_text(PROJECT)
    main(["check", str(tmp_path), "data", "--json"])
    stage = json.loads(capsys.readouterr().out)["stages"][0]
    file, _, line = stage["divergence"]["candidate"]["source"].rpartition(":")
    assert file.endswith("listed_candidate.py")
    assert int(line) in (candidate[: candidate.index("# HERE")].count("\n") + 1, candidate[: candidate.index("factor(CFG")].count("\n") + 1)
