"""What is handed to a step besides what was computed: tables of places, weights counted in a file, pads beside biases of zeros."""

from __future__ import annotations

import json

import pytest

from paralign import cli

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
import csv
from pathlib import Path
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def cells():
    rank, file = torch.arange(16) // 4, torch.arange(16) % 4
    return (rank[:, None] - rank[None, :] + 3) * 7 + (file[:, None] - file[None, :] + 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.local, self.mix = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 6, 3, groups=6), nn.Conv1d(6, 6, 1)
        nn.init.zeros_(self.stem.bias)
        self.offsets = nn.Parameter(torch.randn(49, 6))
        self.register_buffer("cells", cells(), persistent=False)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = self.stem(x)
        x = x + torch.tanh(self.mix(self.local(F.pad(x, (2, 0)))))
        scores = x.unsqueeze(-1) @ x.unsqueeze(-2)
        scores = scores + self.offsets[self.cells].permute(2, 0, 1)
        return self.head((torch.softmax(scores, -1) @ x.unsqueeze(-1)).squeeze(-1).mean(-1))


def rows():
    with open(Path(__file__).parent / "grades.csv", newline="") as file:
        return [(row["who"], int(row["grade"])) for row in csv.DictReader(file)]


def criterion():
    grades = np.array([grade for who, grade in rows() if who != "held"])
    count = np.bincount(grades, minlength=5)
    weight = torch.as_tensor(count.max() / count, dtype=torch.float32)

    def loss(outputs, labels):
        each = F.cross_entropy(outputs, labels, reduction="none")
        return (each * weight.to(outputs.dtype)[labels]).mean()

    return loss


loss = criterion()


def build_model():
    torch.manual_seed(2)
    return Net()


def inputs():
    return np.random.default_rng(1).normal(size=(8, 3, 16)).astype("float32")


def labels():
    return np.arange(8) % 5
"""

CANDIDATE = """
import csv
from pathlib import Path
import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F


def cells():
    rank, file = np.divmod(np.arange(16), 4)
    down = np.subtract.outer(rank, rank) + 3
    across = np.subtract.outer(file, file) + 3
    return down * 7 + across


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem, self.mix = nn.Conv1D(3, 6, 1), nn.Conv1D(6, 6, 1)
        self.padding = nn.Pad1D([2, 0])
        self.local = nn.Conv1D(6, 6, 3, groups=6)
        self.offsets = self.create_parameter([49, 6])
        self.register_buffer("places", paddle.to_tensor(cells().reshape(-1)), persistable=False)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = self.stem(x)
        x = paddle.tanh(self.mix(self.local(self.padding(x)))) + x
        bias = paddle.index_select(self.offsets, self.places).reshape([16, 16, 6])
        scores = paddle.einsum("bhi,bhj->bijh", x, x) + bias
        mixed = paddle.einsum("bijh,bhj->bhi", F.softmax(scores, axis=2), x)
        return self.head(mixed.mean(axis=-1))


def notes():
    with open(Path(__file__).parent / "grades.csv", newline="") as file:
        return list(csv.DictReader(file))


def weighted():
    grades = np.array([int(row["grade"]) for row in notes() if row["who"] != "held"])
    count = np.bincount(grades, minlength=5)
    weight = count.max() / count

    def loss(outputs, labels):
        each = F.cross_entropy(outputs, labels, reduction="none").flatten()
        return paddle.mean(each * paddle.to_tensor(weight, dtype=outputs.dtype)[labels])

    return loss


loss = weighted()


def build_model():
    return Net()
"""

PROJECT = """
stages = ["weights", "forward", "loss"]
[reference]
module = "reference.py"
framework = "torch"
[candidate]
module = "candidate.py"
framework = "paddle"
"""

#: stage, what is replaced, by what: the new text stands on the lines that may be named
FAULTS = {
    "a table of places the other way round": ("forward", "return down * 7 + across", "return across * 7 + down"),
    "a pad on both sides, behind a bias of zeros": ("forward", "nn.Pad1D([2, 0])", "nn.Pad1D([1, 1])"),
    "weights counted in all rows of a file": ("loss", ' for row in notes() if row["who"] != "held"])', " for row in notes()])"),
}


def checked(folder, text):
    for name, source in (("reference.py", REFERENCE), ("candidate.py", text), ("paralign.toml", PROJECT)):
        (folder / name).write_text(source)
    rows = [
        f"{who},{grade}" for who, grades in (("one", "0112233444"), ("two", "001223344"), ("held", "0000001111222")) for grade in grades
    ]
    (folder / "grades.csv").write_text("\n".join(["who,grade", *rows]) + "\n")
    code = cli.main(["check", str(folder)])
    return code, {stage["name"]: stage for stage in json.loads((folder / "result" / "report.json").read_text())["stages"]}


def test_the_other_way_to_write_all_this_is_right(tmp_path):
    assert checked(tmp_path, CANDIDATE)[0] == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_what_made_it_is_named(tmp_path, monkeypatch, fault):
    monkeypatch.setenv("PARALIGN_REPAIR_SECONDS", "0")
    stage, right, wrong = FAULTS[fault]
    assert CANDIDATE.count(right) == 1
    text = CANDIDATE.replace(right, wrong)
    code, stages = checked(tmp_path, text)
    assert code == 1
    line = int(stages[stage]["divergence"]["candidate"]["source"].rpartition(":")[2])
    place = text.splitlines().index(next(each for each in text.splitlines() if wrong in each)) + 1
    assert line in (place, place + 1 if stage == "loss" else place), stages[stage]["divergence"]["candidate"]
