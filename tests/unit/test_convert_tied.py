"""Weights of layers that may be Linear: read, written, set and shared by two layers; decorators of compilers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate
from paralign.port.plans.conversions import conversions

pytestmark = pytest.mark.programs

PROGRAM = """import torch
from torch import nn

numbers = [[0.1 * (row + 1) * (column - 1) for column in range(4)] for row in range(6)]


class Language(nn.Module):
    def __init__(self, words=6, width=4):
        super().__init__()
        self.parts = nn.ModuleDict(dict(words=nn.Embedding(words, width), head=nn.Linear(width, words, bias=False)))
        self.parts.words.weight = self.parts.head.weight

    def forward(self, x):
        return self.parts.head(self.parts.words(x))


def filled(model, rows):
    with torch.no_grad():
        model.parts.words.weight.copy_(torch.tensor(rows))
    return model


def tied():
    model = filled(Language(), numbers)
    x = torch.tensor([[1, 2], [3, 5]])
    loss = model(x).pow(2).sum()
    loss.backward()
    shapes = list(model.parts.words.weight.shape), list(model.parts.words.weight.grad.shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.step()
    return [round(float(loss), 4), round(float(model(x).sum()), 4), len(list(model.parameters())), shapes, isinstance(model.parts.head, nn.Linear)]


def tied_to_embedding():
    words, head = nn.Embedding(6, 4), nn.Linear(4, 6)
    nn.init.zeros_(head.bias)
    with torch.no_grad():
        words.weight.copy_(torch.tensor(numbers))
    share(head, words)
    return [[round(each, 4) for each in row] for row in head(torch.ones(1, 4)).tolist()]


def share(first, second):
    first.weight = second.weight


def written(layer, rows):
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rows))
        layer.weight.data.mul_(2.0)
        layer.weight.data.add_(torch.tensor(rows))
    return list(layer.weight.shape), round(float(layer.weight.norm()), 4)


def assigned(layer, rows):
    layer.weight.data = torch.tensor(rows)
    first = layer(torch.ones(1, 4)).tolist()
    layer.weight = nn.Parameter(layer.weight[:2])
    return [[round(each, 4) for each in row] for row in first], list(layer.weight.shape)


@torch.jit.ignore
def plain(x):
    return x + 1


class Marked(nn.Module):
    @torch.jit.unused
    def forward(self, x):
        return plain(x)


def compiled():
    model = torch.jit.script(nn.Linear(2, 2))
    return Marked()(torch.ones(1)).tolist(), list(model(torch.ones(1, 2)).shape)


print(tied())
print(tied_to_embedding())
print(written(nn.Linear(4, 6), numbers), written(nn.Embedding(6, 4), numbers))
print(assigned(nn.Linear(4, 6, bias=False), numbers))
print(compiled())
"""


def test_weights_are_those_of_the_original(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert not ledger.left
    given = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.splitlines()
        for name in ("source.py", "port.py")
    ]
    assert given[0] == given[1]


@pytest.mark.parametrize(
    "line",
    ["keep(layer.weight)", "held = [layer.weight]", "row = layer.weight[0]"],
)
def test_a_weight_that_may_be_kept_or_changed_is_left_by_hand(tmp_path, line):
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(layer, keep):\n    {line}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert [each.fate for each in ledger.places if each.name == "torch.nn.Linear.weight"] == [Fate.BY_HAND]


@pytest.mark.parametrize(
    "line",
    [
        'layer.weight.data.copy_(state["fc.weight"])',
        'layer.weight.data = state["fc.weight"]',
        'layer.weight.copy_(other.state_dict().pop("fc.weight"))',
    ],
)
def test_a_tensor_of_a_state_may_lie_as_in_paddle_already_and_is_written_by_hand(tmp_path, line):
    head = "import torch\nfrom torch import nn\n\n\ndef run(layer: nn.Linear, state, other):\n"
    (tmp_path / "source.py").write_text(f"{head}    {line}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    found = [each for each in ledger.places if each.name == "torch.nn.Linear.weight"]
    assert Fate.BY_HAND in {each.fate for each in found}
    assert Fate.REWRITTEN not in {each.fate for each in found}
    assert ".T.copy_" not in (tmp_path / "port.py").read_text(encoding="utf-8")


def test_layers_of_one_known_class_share_a_weight_as_they_are(tmp_path):
    body = "from torch import nn\n\nfirst, second = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)\nfirst.weight = second.weight\n"
    (tmp_path / "source.py").write_text(body, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    text = (tmp_path / "port.py").read_text(encoding="utf-8")
    assert "first.weight = second.weight" in text
    assert not ledger.left


CHANGED = """import torch
from torch import nn


def show(x):
    print([[round(each, 4) for each in row] for row in x.tolist()])


def rows():
    return torch.arange(9.0).reshape(3, 3) / 10


def changed(model):
    for m in model.modules():
        if isinstance(m, nn.Linear):
            m.weight.data.copy_(rows())
            mask = m.weight.data.abs() > 0.4
            m.weight.data.mul_(mask)
            m.weight.data.div_(torch.tensor([1.0, 2.0, 4.0]))
            m.weight.data.mul_(-0.5)
            show(m(torch.eye(3)))


def known():
    fc = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        fc.weight.copy_(rows())
        fc.weight.mul_(rows())
        fc.weight.add_(torch.tensor([1.0, 2.0, 3.0]))
    show(fc(torch.eye(3)))


def tied_twice():
    words, head, other = nn.Embedding(3, 3), nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        words.weight.copy_(rows())
    head.weight = words.weight
    other.weight = head.weight
    show(other(torch.eye(3)))


changed(nn.Sequential(nn.Linear(3, 3, bias=False)))
known()
tied_twice()
"""


def test_what_changes_a_square_weight_lies_as_in_the_original(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(CHANGED, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True).left
    first, second = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.splitlines()
        for name in ("source.py", "port.py")
    ]
    assert first == second


HELD = """import torch
import torch.nn.functional as F
from torch import nn


def filled(layer, by):
    with torch.no_grad():
        layer.weight.copy_((torch.arange(16.0).reshape(4, 4) * by).sin())
    return layer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.listed = nn.ModuleList([filled(nn.Linear(4, 4), 1.0 + at) for at in range(3)])
        self.named = nn.ModuleDict({"first": filled(nn.Linear(4, 4), 4.0)})
        self.body = nn.Sequential(filled(nn.Linear(4, 4), 5.0), nn.ReLU())

    def forward(self, x, at, name):
        for each in self.listed:
            x = x @ each.weight
            x = F.linear(x, each.weight)
        kept = self.body[0].weight
        return torch.matmul(x, self.listed[0].weight) + x @ self.listed[at - 1].weight.t() + x @ self.named[name].weight + x @ kept


def annotated(layer: nn.Module, x):
    return x @ layer.weight


def given(rows):
    made = nn.Parameter(torch.tensor(rows))
    layer = nn.Linear(3, 2, bias=False)
    layer.weight = made
    return layer(torch.ones(1, 3))


def show(x):
    print([[round(float(each), 3) for each in row] for row in x])


show(Net()(torch.eye(4), 2, "first"))
show(annotated(filled(nn.Linear(4, 4), 6.0), torch.eye(4)))
show(given([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]))
"""


def test_weights_of_what_a_container_holds_lie_as_in_the_original(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(HELD, encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True).left
    first, second = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout.splitlines()
        for name in ("source.py", "port.py")
    ]
    assert first == second


@pytest.mark.parametrize(
    ("lines", "fates"),
    [
        ("w = nn.Embedding(4, 4).weight; head = nn.Linear(4, 4); head.weight = w", [Fate.BY_HAND]),
        ("w = nn.Parameter(torch.ones(4, 4)); a, b = nn.Linear(4, 4), nn.Linear(4, 4); a.weight = w; b.weight = w", [Fate.BY_HAND] * 2),
        ("given.weight = value", [Fate.CONDITION]),
        ("given.config.weight = value", []),
        ("norm = nn.LayerNorm(4); norm.weight = value", []),
    ],
)
def test_a_weight_by_a_variable_may_be_another_layers(tmp_path, lines, fates):
    body = f"import torch\nfrom torch import nn\n\n\ndef run(given, value):\n    {lines}\n"
    (tmp_path / "source.py").write_text(body, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert [each.fate for each in ledger.places if each.name == "torch.nn.Linear.weight"] == fates


def test_a_linear_takes_no_weight_of_unknown_layout():
    paddle = pytest.importorskip("paddle")
    space = {"paddle": paddle}
    exec(conversions().helpers["_unshared"], space)
    layer, weight = paddle.nn.Linear(3, 3), paddle.ones([3, 3])
    with pytest.raises(NotImplementedError, match="by a variable"):
        space["_unshared"](layer, weight)
    assert space["_unshared"](paddle.nn.Embedding(3, 3), weight) is weight
    assert space["_unshared"](layer, None) is None
    layer._lies_as_in_pytorch = True
    assert space["_unshared"](layer, weight) is weight


def test_weights_that_cannot_be_shared_are_refused():
    paddle = pytest.importorskip("paddle")
    space = {"paddle": paddle}
    exec(conversions().helpers["_tie"], space)

    class Scaled(paddle.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    words, head = paddle.nn.Embedding(3, 3), paddle.nn.Linear(3, 3)
    with pytest.raises(NotImplementedError, match="forward of its own"):
        space["_tie"](Scaled(3, 3), words)
    space["_tie"](paddle.nn.Linear(3, 3), head)
    with pytest.raises(NotImplementedError, match="share already"):
        space["_tie"](words, head)
