"""``paralign gradient``: what is named on either side is found on both, and where the backward passes part is told."""

from __future__ import annotations

import json

import pytest

from paralign import cli

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.usefixtures("standing_workers")]

REFERENCE = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        gate = torch.sigmoid(hidden)
        return self.last(hidden * gate)


def build_model():
    return Net()


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)
"""

CANDIDATE = (
    REFERENCE.replace("import torch\nfrom torch import nn", "import paddle\nfrom paddle import nn")
    .replace("nn.Module", "nn.Layer")
    .replace("torch.tanh", "paddle.tanh")
    .replace("torch.sigmoid", "nn.functional.sigmoid")
)

PROJECT = """[reference]
framework = "torch"

[candidate]
framework = "paddle"

[inputs]
shape = [4, 6]

[labels]
shape = [4]
low = 0
high = 3
dtype = "int64"
"""


@pytest.fixture
def asked(tmp_path, capsys):
    def ask(*words, edit=("", "")):
        (tmp_path / "paralign.toml").write_text(PROJECT)
        (tmp_path / "reference.py").write_text(REFERENCE)
        (tmp_path / "candidate.py").write_text(CANDIDATE.replace(*edit))
        code = cli.main(["gradient", str(tmp_path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def rows(text):
    (stage,) = json.loads(text)["stages"]
    found, name = {}, ""
    for row in stage["tables"][0]["rows"]:
        name = row[0] or name
        found.setdefault(name, {})[row[1]] = row[2:]
    return stage, found


@pytest.mark.parametrize("what", ["last", "last.weight", "reference.py:14", "candidate.py:14", "outputs"])
def test_what_either_side_calls_something_is_found_on_both(asked, what):
    code, out, _ = asked(what, "--json")
    stage, found = rows(out)
    assert (code, stage["verdict"]) == (0, "aligned")
    both = [sides for sides in found.values() if set(sides) == {"reference", "candidate"}]
    assert both
    assert all(sides["candidate"][-1] == "within noise" for sides in both)
    for sides in both:
        assert float(sides["reference"][2]) == pytest.approx(float(sides["candidate"][2]), rel=1e-4)


def test_statistics_are_those_of_the_gradient(asked, tmp_path):
    _, out, _ = asked("last.bias", "--json")
    _, found = rows(out)
    shape, mean, rms, least, greatest, _ = found["last.bias"]["reference"]
    values = sorted(map(float, (least, greatest)))
    assert shape == "3"
    assert abs(float(mean)) < 1e-9, "gradients of a cross entropy sum up to zero"
    assert sum(v * v for v in (*values, -sum(values))) == pytest.approx(3 * float(rms) ** 2, rel=1e-3)


CUT = ("hidden * gate", "hidden * gate.detach()")


def test_a_value_in_between_and_the_line_where_gradients_part_are_told(asked):
    code, out, _ = asked("candidate.py:12", edit=CUT)
    assert code == 1
    assert "candidate.py:14" in out.split("where it starts")[1]
    assert "the gradient ends here" in out
    code, out, _ = asked("last", edit=CUT)
    assert code == 0
    assert "what was asked for agrees; the backward passes part elsewhere" in out


def test_a_value_without_gradient_on_one_side_says_so(asked):
    code, out, _ = asked("candidate.py:13", "--json", edit=("= nn.functional.sigmoid(hidden)", "= nn.functional.sigmoid(hidden).detach()"))
    _, found = rows(out)
    assert code == 1
    (gate,) = [sides for name, sides in found.items() if name.startswith("detach")]
    assert (gate["candidate"][1], gate["candidate"][-1]) == ("no gradient", "only one")


def test_a_forward_pass_that_differs_is_told_first(asked):
    code, out, _ = asked("last", edit=("paddle.tanh", "nn.functional.relu"))
    assert code in (1, 4)
    assert "values of the forward pass differ already" in out
    assert "candidate.py:12" in out.split("where it starts")[1]


def test_a_name_that_nobody_has_is_answered_with_those_that_are_there(asked):
    code, _, err = asked("lsat")
    assert code == 2
    assert "neither side computes anything called 'lsat'" in err
    assert "last" in err.partition("there are:")[2]
    assert asked("\x1b[31m../../etc:12")[0] == 2


def test_quiet_tells_the_verdict_alone(asked):
    code, out, _ = asked("last", "-q")
    assert (code, out.strip()) == (0, "verdict: aligned")
    assert asked("last", "--mode", "train", "-q")[0] == 0


def test_a_side_without_a_loss_is_not_tested(asked):
    code, out, _ = asked("last", edit=("def loss", "def lost"))
    assert code == 4
    assert "loss" in out
