"""The axis of classes: a loss, a metric or a model that goes along another axis than the reference is told so, with its line; twins are not."""

from __future__ import annotations

import pytest

from paralign.locate.other_axis import RULE, finding
from paralign.model import Finding, OtherAxis

pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle, pytest.mark.usefixtures("standing_workers")]

REFERENCE = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x):
        return {forward}


def build_model():
    torch.manual_seed(0)
    return Net()


def loss(outputs, labels):
    return {loss}


def metric(outputs, labels):
    return {{"m": float({metric})}}
"""
CANDIDATE = (
    REFERENCE.replace(
        "import torch\nfrom torch import nn\nfrom torch.nn import", "import paddle\nfrom paddle import nn\nfrom paddle.nn import"
    )
    .replace("nn.Module", "nn.Layer")
    .replace("Conv2d", "Conv2D")
    .replace("    torch.manual_seed(0)\n", "")
)

TOML = """
[reference]
framework = "torch"
[candidate]
framework = "paddle"
[inputs]
shape = [4, 3, {height}, 5]
[labels]
shape = [4, {height}, 5]
dtype = "int64"
high = 5
"""

CE = "F.cross_entropy(outputs, labels)"
ACC = "(outputs.argmax(1) == labels).float().mean()"


def made(folder, stage, reference, candidate, height=5):
    """The stage of a check of two programs that differ in one expression."""
    from paralign.cli import main

    plain = {"forward": "self.conv(x)", "loss": CE, "metric": ACC}
    (folder / "reference.py").write_text(REFERENCE.format(**{**plain, stage: reference}))
    (folder / "candidate.py").write_text(CANDIDATE.format(**{**plain, stage: candidate}))
    (folder / "paralign.toml").write_text(TOML.format(height=height))
    assert main(["check", str(folder), stage, "-q"]) in (0, 1, 3)
    import json

    return next(each for each in json.loads((folder / "result" / "report.json").read_text())["stages"] if each["name"] == stage)


@pytest.mark.parametrize(
    ("stage", "reference", "candidate", "call", "own"),
    [
        ("loss", CE, CE, "cross_entropy", 3),
        ("loss", "nn.CrossEntropyLoss()(outputs, labels)", "nn.CrossEntropyLoss(axis=-1)(outputs, labels)", "cross_entropy", 3),
        ("loss", "F.nll_loss(F.log_softmax(outputs, dim=1), labels)", "F.nll_loss(F.log_softmax(outputs, 2), labels)", "log_softmax", 2),
        ("forward", "F.softmax(self.conv(x), dim=1)", "F.softmax(self.conv(x))", "softmax", 3),
        ("forward", "self.conv(x).argmax(1)", "self.conv(x).argmax(-1)", "argmax", 3),
        ("forward", "self.conv(x).argmax(1)", "paddle.argmax(self.conv(x), axis=2)", "argmax", 2),
        ("metric", ACC, "(outputs.argmax(-1) == labels).astype('float32').mean()", "argmax", 3),
        ("metric", "F.softmax(outputs, 1).amax(1).mean()", "F.softmax(outputs).max(1).mean()", "softmax", None),
        ("metric", "outputs.topk(2, dim=1)[0].mean()", "paddle.topk(outputs, 2, -1)[0].mean()", "topk", 3),
    ],
)
def test_another_axis_is_named(tmp_path, stage, reference, candidate, call, own):
    found = made(tmp_path, stage, reference, candidate)
    assert found["verdict"] == "diverged"
    cause = found["findings"][0]
    assert cause["cause"].startswith(f"{call} goes along axis {own} of 4; " if own is not None else f"{call} names no axis; ")
    assert "the reference's goes along axis 1" in cause["cause"]
    assert (cause["rule"], cause["fix"]) == (RULE, "Write axis=1 in this call.")
    assert candidate in found["divergence"]["candidate"]["code"]
    assert len([each for each in found["findings"] if each["rule"].startswith(("axis/", "catalogue/"))]) == 1


@pytest.mark.parametrize(
    ("stage", "reference", "candidate", "verdict"),
    [
        ("loss", CE, "F.cross_entropy(outputs, labels, axis=1)", "aligned"),
        ("loss", CE, "F.cross_entropy(outputs.transpose([0, 2, 3, 1]), labels)", "aligned"),
        ("loss", CE, "F.cross_entropy(outputs, labels, axis=1) * 1.5", "diverged"),
        ("loss", CE, "F.cross_entropy(outputs, labels, axis=1, label_smoothing=0.1)", "diverged"),
        ("forward", "F.softmax(self.conv(x), dim=1)", "F.softmax(self.conv(x).transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])", "aligned"),
        ("forward", "F.softmax(self.conv(x), dim=1)", "F.softmax(self.conv(x) * 2, -3)", "diverged"),
        ("metric", "outputs.mean(1).amax()", "outputs.mean([1, 2]).max()", "diverged"),  # it does name axes
        ("metric", ACC, "(outputs.argmax(-3) == labels).astype('float32').mean()", "aligned"),
        ("metric", ACC, "(outputs.argmax(1) != labels).astype('float32').mean()", "diverged"),
    ],
)
def test_an_axis_that_is_right_is_not_blamed(tmp_path, stage, reference, candidate, verdict):
    found = made(tmp_path, stage, reference, candidate)
    assert found["verdict"] == verdict
    assert RULE not in [each["rule"] for each in found["findings"]]


def test_shapes_that_do_not_fit_come_with_the_remedy(tmp_path, capsys):
    from paralign.cli import main

    made(tmp_path, "loss", CE, CE, height=6)
    capsys.readouterr()
    assert main(["check", str(tmp_path), "loss"]) == 3
    assert "write axis=1 where outputs have more than two axes" in " ".join(capsys.readouterr().out.split())


def test_causes_have_both_languages():
    for axis in (OtherAxis(3, 1, 4, "argmax"), OtherAxis(None, 1, 3, "softmax"), OtherAxis(0, 1, 2, "sum")):
        found = finding(axis)
        assert isinstance(found, Finding)
        assert "axis 1" in found.cause
        assert "第 1 轴" in found.cause_zh
        assert "axis=1" in found.fix_zh
    assert "names no axis" in finding(OtherAxis(None, 1, 3, "softmax")).cause
    assert "classes" not in finding(OtherAxis(0, 1, 2, "sum")).cause
