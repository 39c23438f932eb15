"""Planted mistakes undone by a patch, through the command: proven where one statement is at fault, none claimed elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
WRONG = (("0.229", "0.225"), ("axis=1, keepdims", "axis=0, keepdims"), ("numbers / 4.0 - 1.0", "numbers / 4.0"))


def block(page: str, kind: str, number: int = 0) -> str:
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)[number]


def project(folder: Path, reference: str, *changes: tuple[str, str], candidate: str = "", settings: str = "") -> Path:
    """The page's project, with another reference and a candidate that differs by some changes."""
    candidate = candidate or reference
    for right, wrong in changes:
        assert candidate.count(right) == 1, right
        candidate = candidate.replace(right, wrong)
    folder.mkdir(exist_ok=True)
    (folder / "reference.py").write_text(reference)
    (folder / "candidate.py").write_text(candidate)
    (folder / "paralign.toml").write_text(settings or block("repair.md", "toml"))
    (folder / "first.txt").write_text("3 5 8")
    (folder / "second.txt").write_text("1 9 2 7")
    return folder


@pytest.fixture
def run(run):
    """The command ``paralign repair``; ``check`` of it is ``paralign check``."""

    def repair(folder, *options):
        return run("repair", folder, *options, timeout=400)

    repair.check = lambda folder, *options: run("check", folder, *options, timeout=400)
    return repair


def findings(folder: Path) -> dict[str, list[dict]]:
    report = json.loads((folder / "result" / "report.json").read_text())
    return {stage["name"]: [f for f in stage["findings"] if f["rule"].startswith("repair/")] for stage in report["stages"]}


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def test_the_example_of_the_page_is_repaired_one_fault_after_the_other(run, tmp_path):
    folder = project(tmp_path / "p", block("repair.md", "python"), *WRONG)
    before = contents(folder)
    done = run(folder)
    assert done.code == 0, done.out + done.err
    assert contents(folder) == before, "nothing of the user's is touched"
    patch = (folder / "result" / "repair.patch").read_text()
    assert patch == block("repair.md", "diff") == block("repair.zh.md", "diff")
    found = findings(folder)
    assert [[f["rule"] for f in found[name]] for name in ("data", "metric", "infer")] == [
        ["repair/value"],
        ["repair/value"],
        ["repair/missing"],
    ]
    for each in (f for stage in found.values() for f in stage):
        assert each["proven"]
        assert each["patch"]
        assert each["cause_zh"]
        assert each["error_before"] is None or each["error_after"] < 1e-6 < each["error_before"]
    assert "proven" in done.out


OTHER = """import numpy as np


class Samples:
    def __len__(self):
        return 12

    def __getitem__(self, index):
        image = np.random.RandomState(index).rand(6)
        image = np.sqrt(image) + 1.0
        return image.astype("float32"), index % 3


def build_dataset(split):
    return Samples()


def build_model():
    weight = np.random.RandomState(3).randn(6, 3)
    return lambda x: x @ weight


def inputs():
    return np.stack([np.random.RandomState(index).rand(6) for index in range(12)])


def labels():
    return np.arange(12) % 3


def metric(outputs, labels, top=0.25):
    level = np.quantile(outputs, 1.0 - top, axis=1)
    chosen = outputs[np.arange(len(labels)), labels]
    return {"above": float(np.mean(chosen - level))}


def predict(path):
    numbers = np.array([float(word) for word in open(path).read().split()])
    low, high = numbers.min(), numbers.max()
    return {"score": (numbers - low) / (high - low)}
"""


def test_other_kinds_of_mistakes_are_repaired(run, tmp_path):
    changes = (("np.sqrt(image) + 1.0", "np.sqrt(image) - 1.0"), ("top=0.25", "top=0.75"), ("(numbers - low) /", "(numbers - high) /"))
    folder = project(tmp_path / "p", OTHER, *changes)
    before = (folder / "candidate.py").read_bytes()
    done = run(folder, "--apply")
    assert done.code == 0, done.out + done.err
    assert (folder / "candidate.py").read_text() == OTHER
    assert (folder / "candidate.py.before-repair").read_bytes() == before
    assert {f["rule"] for found in findings(folder).values() for f in found} >= {"repair/operator", "repair/name"}


def test_no_patch_is_claimed_where_no_statement_alone_is_at_fault(run, tmp_path):
    reference = OTHER.replace("image = np.sqrt(image) + 1.0", "image = image + np.array([0.3, 0.9, 0.2, 0.7, 0.1, 0.8])")
    changes = (
        ("[0.3, 0.9, 0.2, 0.7, 0.1, 0.8]", "[0.41, 0.13, 0.67, 0.29, 0.58, 0.94]"),  # a table
        ("1.0 - top, axis=1", "0.9 - top, axis=1"),  # two statements
        ("np.mean(chosen - level)", "np.median(chosen - level * 0.7)"),
        (
            "    low, high = numbers.min(), numbers.max()\n",
            "    low, high = 0.3, 17.0\n    numbers = np.cumsum(numbers)[::-1]\n",
        ),  # two more
    )
    folder = project(tmp_path / "p", reference, *changes)
    done = run(folder, "--seconds", "8")
    assert done.code == 1, done.out + done.err
    assert not any(findings(folder).values())
    assert not (folder / "result" / "repair.patch").exists()
    assert "no edit of one statement was proven" in done.out


TWO = OTHER.replace(
    '    return {"above": float(np.mean(chosen - level))}',
    '    spread = outputs.max(axis=1) - outputs.min(axis=1)\n    return {"above": float(np.mean(chosen - level)), "spread": float(spread.mean())}',
)


def test_two_faults_of_one_stage_are_repaired_one_after_the_other(run, tmp_path):
    changes = (("np.mean(chosen - level)", "np.mean(chosen + level)"), ("outputs.min(axis=1)", "outputs.min(axis=1) * 0.5"))
    folder = project(tmp_path / "p", TWO, *changes, settings=block("repair.md", "toml").replace('"data", "metric", "infer"', '"metric"'))
    done = run(folder, "--apply")
    assert done.code == 0, done.out + done.err
    assert (folder / "candidate.py").read_text().replace("min(axis=1) * 1)", "min(axis=1))").replace(
        "min(axis=1) * 1\n", "min(axis=1)\n"
    ) == TWO
    found = findings(folder)["metric"]
    assert len(found) == 2
    assert all(f["proven"] and f["error_after"] < 1e-6 for f in found)


FAR = """import numpy as np

def build_model():
    return lambda x: x


LEVELS = {"high": 1.6449, "low": -0.385}


def rescaled(numbers, shift=0.375):
    numbers = numbers / np.abs(numbers).max()
    return numbers - shift


def predict(path):
    numbers = np.array([float(word) for word in open(path).read().split()])
    scaled = rescaled(numbers)
    return {"score": scaled * LEVELS["high"] + LEVELS["low"]}
"""


@pytest.mark.parametrize(("right", "wrong"), [('"high": 1.6449', '"high": 1.2816'), ("shift=0.375", "shift=0.625")])
def test_a_check_that_is_asked_for_nothing_leads_with_the_line_of_a_proven_edit(run, tmp_path, monkeypatch, right, wrong):
    monkeypatch.setenv("PARALIGN_REPAIR_SECONDS", "60")
    settings = block("repair.md", "toml").replace('"data", "metric", "infer"', '"infer"')
    folder = project(tmp_path / "p", FAR, (right, wrong), settings=settings)
    done = run.check(folder)
    assert done.code == 1, done.out + done.err
    stage = json.loads((folder / "result" / "report.json").read_text())["stages"][-1]
    line = 1 + next(n for n, text in enumerate(FAR.splitlines()) if right in text)
    assert stage["divergence"]["candidate"]["source"].endswith(f"candidate.py:{line}")
    assert stage["divergence"]["confirmed"]
    assert stage["findings"][0]["proven"]
    assert stage["findings"][0]["patch"]
    assert (folder / "result" / "report.html").exists()
    monkeypatch.setenv("PARALIGN_REPAIR_SECONDS", "soon")
    assert run.check(folder).code == 2


PORT = """import configparser
from pathlib import Path

import numpy as np

_file = configparser.ConfigParser(inline_comment_prefixes=(";",))
_file.read(Path(__file__).resolve().parent / "port.ini")


def build_model():
    return lambda x: x


def inputs():
    return np.ones((2, 3))


def predict(path):
    numbers = np.array([float(word) for word in open(path).read().split()])
    return {"score": np.tanh(numbers / 4.0) * _file.getfloat("infer", "gain") + _file.getfloat("infer", "shift")}
"""

INI = b"; gain = 3\r\n[infer]\r\nshift = 0.375 ; and so\r\ngain = 1.25\r\n"


def test_a_wrong_value_of_a_settings_file(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PARALIGN_REPAIR_SECONDS", "60")
    settings = block("repair.md", "toml").replace('"data", "metric", "infer"', '"infer"')
    folder = project(tmp_path / "p", PORT.replace("port.ini", "source.ini"), candidate=PORT, settings=settings)
    (folder / "source.ini").write_bytes(INI)
    wrong = INI.replace(b"1.25", b"1.5")
    (folder / "port.ini").write_bytes(wrong)
    done = run.check(folder)
    assert done.code == 1, done.out + done.err
    stage = json.loads((folder / "result" / "report.json").read_text())["stages"][-1]
    assert stage["divergence"]["candidate"]["source"].endswith("port.ini:4")
    assert stage["findings"][0]["rule"] == "repair/setting"
    assert (folder / "port.ini").read_bytes() == wrong
    done = run(folder, "--apply")
    assert done.code == 0, done.out + done.err
    patch = (folder / "result" / "repair.patch").read_bytes()
    assert b"--- a/port.ini" in patch
    assert b"-gain = 1.5\r\n+gain = 1.25\r\n" in patch
    assert (folder / "port.ini").read_bytes() == INI
    assert (folder / "port.ini.before-repair").read_bytes() == wrong
    assert (folder / "source.ini").read_bytes() == INI


def test_a_settings_file_of_both_sides_is_not_edited(run, tmp_path):
    settings = block("repair.md", "toml").replace('"data", "metric", "infer"', '"infer"')
    folder = project(tmp_path / "p", PORT, ('"gain") +', '"gain") * 1.2 +'), settings=settings)
    (folder / "port.ini").write_bytes(INI)
    run(folder, "--seconds", "30")
    patch = folder / "result" / "repair.patch"
    assert not patch.exists() or b"port.ini" not in patch.read_bytes()
    assert (folder / "port.ini").read_bytes() == INI


GLOBBING = (
    PORT.split("_file =", maxsplit=1)[0].replace("import configparser\n", "")
    + """
_here = Path(__file__).resolve().parent


def build_model():
    return lambda x: x


def inputs():
    return np.ones((2, 3))


def gain():
    for file in sorted(_here.glob("*.yaml")):
        told = file.read_text().split(":")[1]
    return float(told)


def predict(path):
    numbers = np.array([float(word) for word in open(path).read().split()])
    return {"score": np.tanh(numbers / 4.0) * gain()}
"""
)


def test_a_file_that_the_reference_reads_unnamed_is_not_edited(run, tmp_path):
    settings = block("repair.md", "toml").replace('"data", "metric", "infer"', '"infer"')
    named = GLOBBING.replace('sorted(_here.glob("*.yaml"))', '[_here / "port.yaml"]')
    candidate = named.replace("return float(told)", "return sum(float(told) * part for part in (0.3, 0.2))")
    folder = project(tmp_path / "p", GLOBBING, candidate=candidate, settings=settings)
    (folder / "port.yaml").write_text("gain: 1.25\n")
    done = run(folder, "--seconds", "40")
    assert done.code == 1, done.out + done.err
    patch = folder / "result" / "repair.patch"
    assert not patch.exists() or b"port.yaml" not in patch.read_bytes()


TORCH = """import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.leaky_relu(self.norm(self.stem(x)), 0.2)
        x = F.avg_pool2d(x, 3, 2, 1)
        return self.head(torch.tanh(x).mean((2, 3)))


def build_model():
    model = Net()
    nn.init.normal_(model.norm.weight)
    return model
"""

SETTINGS = """stages = ["weights", "forward"]

[reference]
framework = "torch"

[candidate]
framework = "{framework}"

[inputs]
shape = [2, 3, 10, 10]
"""


@pytest.mark.torch
def test_a_fault_of_the_model_holds_on_fresh_inputs(run, tmp_path):
    pytest.importorskip("torch")
    folder = project(tmp_path / "p", TORCH, ("torch.tanh(x).mean((2, 3))", "x.mean((2, 3))"), settings=SETTINGS.format(framework="torch"))
    done = run(folder)
    assert done.code == 0, done.out + done.err
    assert "+        return self.head(torch.tanh(x).mean((2, 3)))" in (folder / "result" / "repair.patch").read_text()


LACKING = TORCH.replace(
    "        x = F.avg_pool2d(x, 3, 2, 1)\n", "        x = F.avg_pool2d(x, 3, 2, 1)\n        x = x * torch.sigmoid(x)\n"
)
OPTIMIZER = """

def loss(outputs, labels):
    return F.cross_entropy(outputs, labels)


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4, weight_decay=0.05)
"""


@pytest.mark.torch
def test_what_a_port_lacks_is_written_in_and_two_faults_of_the_model_are_undone(run, tmp_path):
    pytest.importorskip("torch")
    changes = (
        ("        x = x * torch.sigmoid(x)\n", ""),
        ("F.leaky_relu(self.norm(self.stem(x)), 0.2)", "F.leaky_relu(self.norm(self.stem(x)))"),
    )
    settings = SETTINGS.format(framework="torch").replace('"forward"]', '"forward", "backward"]')
    settings += '\n[labels]\nshape = [2]\ndtype = "int64"\nhigh = 5\n'
    folder = project(tmp_path / "p", LACKING + OPTIMIZER, *changes, (", weight_decay=0.05", ""), settings=settings)
    done = run(folder)
    assert done.code == 0, done.out + done.err
    patch = (folder / "result" / "repair.patch").read_text()
    for line in ("+        x = x * torch.sigmoid(x)", "weight_decay=0.05"):
        assert line in patch
    found = findings(folder)["forward"]
    assert len(found) == 2
    assert all(other["fix"].count(place) == 1 for one, other in (found, found[::-1]) for place in one["together"])
    assert [len(each["together"]) for each in found] == [1, 1]
    assert [f["rule"] for f in findings(folder)["backward"]] == ["repair/catalogue"]


PADDLE = """import paddle
from paddle import nn
from paddle.nn import functional as F


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8, epsilon=1e-3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.leaky_relu(self.norm(self.stem(x)), negative_slope=0.2)
        x = F.avg_pool2d(x, 3, 2, 1, exclusive=False)
        return self.head(paddle.tanh(x).mean([2, 3]))


def build_model():
    return Net()
"""


@pytest.mark.torch
@pytest.mark.paddle
def test_the_catalogue_says_what_a_port_has_to_write(run, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    folder = project(tmp_path / "p", TORCH, (", exclusive=False", ""), candidate=PADDLE, settings=SETTINGS.format(framework="paddle"))
    done = run(folder)
    assert done.code == 0, done.out + done.err
    assert "exclusive=False" in (folder / "result" / "repair.patch").read_text()
    (found,) = findings(folder)["forward"]
    assert found["rule"] in ("repair/catalogue", "repair/argument")
