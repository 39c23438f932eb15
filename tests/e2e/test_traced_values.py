"""The line that made a number which a loss, or an operator in it, takes: in a settings module, far from where it is used."""

from __future__ import annotations

import json

import pytest

from paralign.cli import main
from paralign.model import DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = pytest.mark.usefixtures("standing_workers")

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F

FOCUS = 0.85

def build_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

def loss(outputs, labels):
    spread = outputs - outputs.mean()
    return F.cross_entropy(outputs, labels) + (spread ** 2).mean() - FOCUS * spread.abs().mean() ** 2
"""

SETTINGS = """
from dataclasses import dataclass


@dataclass
class Criterion:
    gain: float = 1.0
    variance_focus: float = 0.85
"""

CANDIDATE = """
import paddle
from paddle import nn
from paddle.nn import functional as F
from traced_settings import Criterion

CFG = Criterion()

def build_model():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

def loss(outputs, labels):
    spread = outputs - outputs.mean()
    shape = (spread ** 2).mean() - CFG.variance_focus * spread.abs().mean() ** 2
    return F.cross_entropy(outputs, labels) + shape
"""

PROJECT = (
    'stages = ["weights", "loss"]\n[reference]\nmodule = "traced_reference.py"\nframework = "torch"\n'
    '[candidate]\nmodule = "traced_candidate.py"\nframework = "paddle"\n[inputs]\nshape = [5, 6]\n[labels]\nshape = [5]\ndtype = "int64"\nhigh = 4\n'
)

BOUNDED = """
class Limits:
    def __init__(self, near, far):
        self.near, self.far = near, far

    def __call__(self, outputs):
        near = outputs.clip(-self.near, self.near)
        return near - outputs.clip(1.0 - self.near, 1.0 + self.near).mean()

LIMITS = Limits(0.3, 0.2)

def loss(outputs, labels):
"""


def checked(folder, old, new):
    files = {"traced_reference.py": REFERENCE, "traced_settings.py": SETTINGS, "traced_candidate.py": CANDIDATE}
    for name, text in files.items():
        (folder / name).write_text(text.replace(old, new) if name != "traced_reference.py" else text)
    (folder / "paralign.toml").write_text(PROJECT)
    return main(["check", str(folder), "--json"])


def test_the_default_of_a_setting_is_named(tmp_path, capsys):
    assert checked(tmp_path, "focus: float = 0.85", "focus: float = 0.5") == 1
    report = json.loads(capsys.readouterr().out)
    loss = next(stage for stage in report["stages"] if stage["name"] == "loss")
    assert loss["verdict"] == DIVERGED
    found = loss["divergences"][0]
    assert found["candidate"]["source"].endswith("traced_settings.py:8"), found["candidate"]
    assert any("the value comes from here: 0.5; the reference has 0.85" in note for note in found["notes"]), found["notes"]


def test_a_program_that_cannot_be_imported_again_is_said_to_be_untraced(tmp_path, capsys):
    """Then the line is that of the wrong operation, and the report says that what led there was not followed."""
    once = "import sys\nif hasattr(sys, 'of_this_test'):\n    raise RuntimeError('imported twice')\nsys.of_this_test = True\nCFG = Criterion(1.0, 0.5)"
    assert checked(tmp_path, "CFG = Criterion()", once) == 1
    loss = next(stage for stage in json.loads(capsys.readouterr().out)["stages"] if stage["name"] == "loss")
    assert loss["divergences"][0].get("rule") != "provenance"
    assert [note for note in loss["notes"] if note.startswith("where wrong values come from was not followed")] == [
        "where wrong values come from was not followed through the code of the candidate: RuntimeError: imported twice"
    ]


def test_a_right_number_at_the_wrong_place_is_named_where_it_is_taken(tmp_path, capsys):
    """The number is a right operation's too, with the reference's: then it is not what it was made of that is at fault."""
    reference = REFERENCE.replace(
        "    spread = outputs - outputs.mean()\n", "    spread = outputs.clamp(-NEAR, NEAR) - outputs.clamp(1 - FAR, 1 + FAR).mean()\n"
    ).replace("FOCUS = 0.85", "FOCUS = 0.85\nNEAR, FAR = 0.3, 0.2")
    candidate = CANDIDATE.replace("def loss(outputs, labels):\n", BOUNDED).replace("outputs - outputs.mean()", "LIMITS(outputs)")
    for name, text in {"traced_reference.py": reference, "traced_settings.py": SETTINGS, "traced_candidate.py": candidate}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "paralign.toml").write_text(PROJECT)
    assert main(["check", str(tmp_path), "--json"]) == 1
    loss = next(stage for stage in json.loads(capsys.readouterr().out)["stages"] if stage["name"] == "loss")
    assert loss["divergences"][0]["candidate"]["source"].endswith("traced_candidate.py:19"), loss["divergences"][0]["candidate"]


def test_an_entry_of_a_settings_file_is_named(tmp_path, capsys):
    candidate = CANDIDATE.replace(
        "from traced_settings import Criterion\n\nCFG = Criterion()", "import json\n\nCFG = json.load(open(PATH))"
    )
    candidate = candidate.replace("CFG.variance_focus", 'CFG["loss"]["variance_focus"]').replace("PATH", repr(str(tmp_path / "loss.json")))
    settings = {"model": {"width": 8}, "loss": {"gain": 1.0, "variance_focus": 0.5}}
    for name, text in {"traced_reference.py": REFERENCE, "traced_candidate.py": candidate, "paralign.toml": PROJECT}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "loss.json").write_text(json.dumps(settings, indent=2))
    assert main(["check", str(tmp_path), "--json"]) == 1
    loss = next(stage for stage in json.loads(capsys.readouterr().out)["stages"] if stage["name"] == "loss")
    found = loss["divergences"][0]
    assert found["candidate"]["source"].endswith("loss.json:7"), found["candidate"]
    assert found["candidate"]["code"] == '"variance_focus": 0.5'
    assert any("0.5; the reference has 0.85" in note for note in found["notes"]), found["notes"]


NORMED = {
    "traced_reference.py": """
import torch
from torch import nn

def build_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=0.05), nn.Tanh(), nn.Linear(8, 4))

def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)

def build_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
""",
    "traced_candidate.py": """
import json
from types import SimpleNamespace

import paddle
from paddle import nn

CFG = json.load(open(PATH), object_hook=lambda held: SimpleNamespace(**held))

def normed(width, momentum):
    return nn.BatchNorm1D(width, momentum=momentum)

def build_model():
    return nn.Sequential(nn.Linear(6, 8), normed(8, CFG.net.keep), nn.Tanh(), nn.Linear(8, 4))

def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)

def build_optimizer(model):
    return paddle.optimizer.SGD(parameters=model.parameters(), learning_rate=0.1)
""",
}


@pytest.mark.parametrize(("keep", "code"), [(0.95, 0), (0.05, 1)])
def test_a_momentum_of_a_settings_file_that_was_copied_is_named(tmp_path, capsys, keep, code):
    for name, text in NORMED.items():
        (tmp_path / name).write_text(text.replace("PATH", repr(str(tmp_path / "net.json"))))
    (tmp_path / "net.json").write_text(json.dumps({"net": {"width": 8, "keep": keep}}, indent=2))
    (tmp_path / "paralign.toml").write_text(PROJECT.replace('["weights", "loss"]', '["weights", "backward"]'))
    assert main(["check", str(tmp_path), "--json"]) == code
    backward = next(stage for stage in json.loads(capsys.readouterr().out)["stages"] if stage["name"] == "backward")
    if code:
        found = backward["divergences"][0] if backward["divergences"] else backward["divergence"]
        assert found["candidate"]["source"].endswith("net.json:4"), found["candidate"]
        assert "the momentum comes from here" in found["notes"]
