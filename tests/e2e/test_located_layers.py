"""Layers constructed wrongly by helpers, so that what they make fits nowhere else: the line that chose the argument is named first."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import check

torch = pytest.importorskip("torch")
pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

MODEL = """
class Unit(nn.{layer}):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv = nn.{conv}(inner, outer, 3, stride, 1)
        self.norm = nn.GroupNorm(4, outer)

    def forward(self, x):
        x = self.conv(x)
        x = self.norm(x)
        return x


class Block(nn.{layer}):
    def __init__(self, inner, outer, stride=1, short=None):
        super().__init__()
        self.conv1 = Unit(inner, outer, stride)
        self.conv2 = Unit(outer, outer, 1)
        self.short = short

    def forward(self, x):
        identity = x if self.short is None else self.short(x)
        return {f}.relu(self.conv2({f}.relu(self.conv1(x))) + identity)


def blocks(inner, outer, stride):
    short = nn.{conv}(inner, outer, 1, stride)
    return nn.Sequential(
        Block(inner, outer, stride, short),
        Block(outer, outer),
    )


class Net(nn.{layer}):
    def __init__(self):
        super().__init__()
        self.first = blocks(3, 8, 1)
        self.second = blocks(8, 12, 2)
        self.third = blocks(12, 16, 2)
        self.pool = nn.{pool}(2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.first(x)
        x = self.pool(x)
        x = self.third(self.second(x))
        return self.head(x.mean({axis}=[2, 3]))


def build_model():
    {seed}(0)
    return Net()
"""
REFERENCE = "import torch\nfrom torch import nn\n" + MODEL.format(
    layer="Module", conv="Conv2d", pool="MaxPool2d", f="torch", axis="dim", seed="torch.manual_seed"
)
CANDIDATE = "import paddle\nfrom paddle import nn\nfrom paddle.nn import functional as F\n" + MODEL.format(
    layer="Layer", conv="Conv2D", pool="MaxPool2D", f="F", axis="axis", seed="paddle.seed"
)


@pytest.fixture
def located(written_side):
    """The candidate's lines that a check names, for a port in which one text is exchanged, and the file's lines."""

    def run(old, new):
        assert CANDIDATE.count(old) == 1
        inputs = np.random.default_rng(0).standard_normal((2, 3, 24, 24)).astype("float32")
        text = CANDIDATE.replace(old, new)
        (stage,) = check(
            written_side("torch", REFERENCE, "build_model"), written_side("paddle", text, "build_model"), inputs=inputs, stages=["forward"]
        ).stages
        return [d.candidate.source.rpartition(":")[2] for d in stage.divergences], text.splitlines()

    return run


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("blocks(12, 16, 2)", "blocks(12, 16, 3)"),
        ("blocks(3, 8, 1)", "blocks(3, 8, 2)"),
        ("nn.Conv2D(inner, outer, 3, stride, 1)", "nn.Conv2D(inner, outer, 3, stride, 1, padding_mode='reflect')"),
        ("nn.GroupNorm(4, outer)", "nn.GroupNorm(2, outer)"),
    ],
)
def test_the_line_that_chose_a_layers_argument_is_named(located, old, new):
    lines, text = located(old, new)
    assert new in text[int(lines[0]) - 1]


@pytest.mark.parametrize("new", ["", "x = x"])
def test_a_layer_that_is_there_but_not_called_belongs_where_its_fellows_are_called(located, new):
    lines, text = located("x = self.norm(x)", new)
    assert text[int(lines[0]) - 1].strip() in (new or "return x", "x = self.conv(x)")


def test_a_step_is_missing_before_several_that_would_not_fit_together_if_only_one_had_it(located):
    lines, text = located("x = self.pool(x)", "x = x")
    assert (len(lines), text[int(lines[0]) - 1].strip()) == (1, "x = x")


def test_a_right_port_has_no_such_line(located):
    assert located("blocks(12, 16, 2)", "blocks(12, 16, stride=2)")[0] == []


CAUSAL = """
class Causal(nn.{layer}):
    def __init__(self, inner, outer, dilation):
        super().__init__()
        self.cut = 2 * dilation
        self.conv = nn.{conv}(inner, outer, 3, padding=self.cut, dilation=dilation)
        self.norm = nn.GroupNorm(2, outer)

    def forward(self, x):
        return {f}.relu(self.norm(self.conv(x)[:, :, : -self.cut]))


class Net(nn.{layer}):
    def __init__(self):
        super().__init__()
        self.first = Causal(3, 8, 1)
        self.second = Causal(8, 8, 2)

    def forward(self, x):
        return self.second(self.first(x)).mean({axis}=2)


def build_model():
    {seed}(0)
    return Net()
"""


@pytest.mark.parametrize(("dilation", "named"), [(3, True), (2, False)])
def test_a_layer_whose_weight_is_arranged_before_it_is_used_is_told_by_its_arguments(written_side, dilation, named):
    """Paddle's one-dimensional convolution takes its weight by two steps, and makes more than the reference's: a later step cuts it."""
    texts = [
        head + CAUSAL.format(layer=layer, conv=conv, f=f, axis=axis, seed=seed).replace("(8, 8, 2)", f"(8, 8, {number})")
        for head, layer, conv, f, axis, seed, number in (
            ("import torch\nfrom torch import nn\n", "Module", "Conv1d", "torch", "dim", "torch.manual_seed", 2),
            ("import paddle\nfrom paddle import nn\nfrom paddle.nn import functional as F\n", "Layer", "Conv1D", "F", "axis", "paddle.seed", dilation),
        )
    ]  # fmt: skip
    sides = [written_side(name, text, "build_model") for name, text in zip(("torch", "paddle"), texts, strict=True)]
    inputs = np.random.default_rng(0).standard_normal((2, 3, 20)).astype("float32")
    (stage,) = check(*sides, inputs=inputs, stages=["forward"]).stages
    assert bool(stage.divergences) == named
    if not named:
        return
    first = stage.divergences[0]
    places = [first.candidate.source, *first.candidate.lines]
    told = [texts[1].splitlines()[int(place.rpartition(":")[2]) - 1] for place in places]
    assert any("Causal(8, 8, 3)" in line for line in told)
    assert any("nn.Conv1D(inner" in line for line in told[:2])
    assert (first.what, first.candidate.name) == ("different", "second.conv")
    assert first.candidate.arguments["dilations"] == [1, 3]
