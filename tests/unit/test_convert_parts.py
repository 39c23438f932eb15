"""Parts changed in place, casts, annotations, and weights shared elsewhere."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace

import pytest

from paralign.commands.port import _checked
from paralign.port.drafts.converted import convert_code
from paralign.port.drafts.drafting import draft
from paralign.port.drafts.refused_types import Function, refusing
from paralign.port.edits.ledger import Fate

pytestmark = pytest.mark.programs

PROGRAM = """import copy
from dataclasses import dataclass
from typing import Optional

import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    dtype: torch.dtype = torch.float64
    size: Optional[torch.Size] = None


def show(*tensors):
    print([[round(float(each), 4) for each in x.flatten()] for x in tensors])


def boxes():
    y = torch.arange(12.0).reshape(3, 4)
    y[:, 0::2].clamp_(1, 5)
    y[..., 1].mul_(2.0)
    y[-1].add_(y[0])
    for at in range(2):
        y[at, 3].sub_(at)
    show(y)


def images(x, mean):
    first = x.sub(mean).div_(2)
    second = x.float().div_(4).sub_(mean)
    third = x.permute(1, 0).contiguous().mul_(3)
    show(first, second, third)


class Averaged:
    def __init__(self, model):
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.other = copy.deepcopy(model).requires_grad_(False)


def embedded(time, width):
    rates = torch.exp(torch.arange(width) * -0.5)
    show(time[:, None] * rates[None, :], time.unsqueeze(-1) * rates)


def ignoring(scores, labels, smoothing):
    parts = [scores]
    parts.append(scores * math.sqrt(4))
    own = F.cross_entropy(scores, labels, ignore_index=-100, label_smoothing=smoothing), nn.CrossEntropyLoss(ignore_index=-100)(parts[1], labels)
    show(*own)


def counted():
    a, b = torch.zeros(3, dtype=torch.int32), torch.ones(3, dtype=torch.int64)
    a += b
    a *= torch.tensor([3, -4, 5])
    print(a.tolist(), "int32" in str(a.dtype))


def kept(kind, x):
    return x.to(kind) if isinstance(kind, torch.dtype) else x


boxes()
images(torch.tensor([[1, 2], [3, 4]]), torch.tensor(1.5))
averaged = Averaged(nn.Linear(2, 2))
print([p.requires_grad for model in (averaged.shadow, averaged.other) for p in model.parameters()], averaged.shadow.training)
embedded(torch.tensor([1, 3]), 3)
counted()
ignoring(torch.arange(12.0).reshape(2, 3, 2).sin(), torch.tensor([[0, -100], [2, -100]]), 0.1)
print("float64" in str(kept(Settings().dtype, torch.ones(1)).dtype))
"""


def _printed(folder, name):
    return subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


def test_parts_casts_and_times_are_those_of_the_original(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    (tmp_path / "source.py").write_text(PROGRAM, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert not ledger.left
    assert not {"torch.Tensor.sqrt", "torch.Tensor.append"} & {each.name for each in ledger.places}
    assert _printed(tmp_path, "source.py") == _printed(tmp_path, "port.py")


@pytest.mark.parametrize("line", ["x.T[0].mul_(2)", "y = x[0].mul_(2)", "y = x[:, at].add_(1)"])
def test_a_part_that_may_be_a_copy_in_pytorch_is_left_by_hand(tmp_path, line):
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(x, mask, at):\n    {line}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert Fate.BY_HAND in {each.fate for each in ledger.places}


@pytest.mark.parametrize(
    "lines",
    [
        "parts = x.chunk(2); parts[0].mul_(0.5)",
        "parts = torch.split(x, 4); parts[0].mul_(0.5)",
        "parts = torch.split(x, 4); parts[0].zero_()",
        "parts = x.unbind(0); parts[1].add_(1)",
        "a, b = x.chunk(2, 1); a[:, 0].mul_(2)",
        "parts = x.chunk(2); a = parts[0]; a[:, 0].mul_(2)",
        "a = torch.split(x, 2)[0].view(2, 2); a[:, 0].mul_(2)",
        "pair = (x + 1, x + 2); pair[0].mul_(2)",
        "held = torch.ones(2, 2); held[0:2].t_()",
        "held = torch.ones(2, 2); held[0, None].squeeze_(0)",
        "torch.einsum('ii->i', x).zero_()",
        "x.contiguous().mul_(2)",
        "x.to(given).mul_(2)",
        "x.float().zero_()",
        "x.data.cuda().normal_()",
    ],
)
def test_what_paddle_changes_nothing_of_is_left_by_hand(tmp_path, lines):
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(x, given):\n    {lines}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert [each.fate for each in ledger.places if each.name.endswith("_")] == [Fate.BY_HAND]


@pytest.mark.parametrize(
    ("loop", "fate"),
    [
        ("for i in range(2):\n        x[i].mul_(2)", Fate.REWRITTEN),
        ("for i, row in enumerate(range(2)):\n        x[i].mul_(2)\n    for i in range(2):\n        pass", Fate.REWRITTEN),
        ("for i in range(2):\n        i = at[i]\n        x[i].mul_(2)", Fate.REWRITTEN),
        ("for i in range(2):\n        x[(i := at[i])].mul_(2)", Fate.BY_HAND),
        ("for i in range(2):\n        for i, j in at:\n            x[i].mul_(2)", Fate.REWRITTEN),
        ("for i in range(2):\n        for j, (i, k) in enumerate(at):\n            x[i].mul_(2)", Fate.REWRITTEN),
        ("for i in range(2):\n        def inner(i):\n            x = torch.ones(2)\n            x[i].mul_(2)", Fate.REWRITTEN),
        ("for i in range(2):\n        def inner():\n            nonlocal i\n            i = at\n        x[i].mul_(2)", Fate.REWRITTEN),
    ],
)
def test_an_index_that_is_no_counter_is_told_at_run_time(tmp_path, loop, fate):
    body = f"import torch\n\n\ndef run(at):\n    x = torch.zeros(4, 2) + 1\n    {loop}\n    return x\n"
    (tmp_path / "source.py").write_text(body, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert [each.fate for each in ledger.places if each.name == "torch.Tensor.mul_"] == [fate]
    told = fate is Fate.REWRITTEN and "row" not in loop and loop != "for i in range(2):\n        x[i].mul_(2)"
    assert ("_put_part(x, i, " in (tmp_path / "port.py").read_text(encoding="utf-8")) is told


@pytest.mark.parametrize(
    ("lines", "written"),
    [
        ("x[0].mul_(2)", "_put_part(x, 0, "),
        ("x[0, 1].mul_(2)", "_put_part(x, (0, 1,), "),
        ("x[given, 0].mul_(2)", "_put_part(x, (given, 0,), "),
        ("x[:, given].add_(1)", "_put_part(x, (slice(None, None, None), given,), "),
        ("x = torch.ones(4, 2) if given else given; x[0].mul_(2)", "_put_part(x, 0, "),
    ],
)
def test_what_an_item_is_of_is_told_at_run_time(tmp_path, lines, written):
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(x, given):\n    {lines}\n", encoding="utf-8")
    assert not convert_code(tmp_path / "source.py", tmp_path / "port.py").left
    assert written in (tmp_path / "port.py").read_text(encoding="utf-8")


def test_parts_of_a_new_tensor_are_assigned_whatever_it_is_made_of(tmp_path):
    lines = "y = torch.cat(x.chunk(2)); y[0].mul_(2); z = torch.zeros(tuple(x.shape)); z[:, 0].add_(1)"
    (tmp_path / "source.py").write_text(f"import torch\n\n\ndef run(x):\n    {lines}\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert [each.fate for each in ledger.places if each.name.endswith("_")] == [Fate.REWRITTEN] * 2


def test_parts_of_an_annotated_argument_are_assigned(tmp_path):
    (tmp_path / "source.py").write_text(
        "import torch\n\n\ndef run(x: torch.Tensor, *y: torch.Tensor):\n    x[0].mul_(2)\n", encoding="utf-8"
    )
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert "x[0] = _mul_(x[0], 2)" in (tmp_path / "port.py").read_text(encoding="utf-8")
    (tmp_path / "source.py").write_text("import torch\n\n\ndef run(*x: torch.Tensor):\n    x[0].mul_(2)\n", encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    assert "_put_part(x, 0, " in (tmp_path / "port.py").read_text(encoding="utf-8")


def test_a_cast_that_may_be_the_tensor_itself_holds_under_a_condition(tmp_path):
    (tmp_path / "source.py").write_text("import torch\n\n\ndef run(x):\n    return x.float().div_(255)\n", encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py")
    assert [each.fate for each in ledger.places if each.name == "torch.Tensor.div_"] == [Fate.CONDITION]


MODEL = """import torch
from torch import nn


class Language(nn.Module):
    def __init__(self, words=3, width=3):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        with torch.no_grad():
            self.words.weight.copy_(torch.arange(9.0).reshape(3, 3))
        self.head.weight = self.words.weight
"""

USE = """import torch
import torch.nn.functional as F
from model import Language


def own(x, weight):
    return x @ weight


def scores(model: Language, x):
    return F.linear(x, model.head.weight), x @ model.head.weight.t(), own(x, model.head.weight)


print([[[round(float(each), 4) for each in row] for row in part] for part in scores(Language(), torch.eye(3))])
"""


def _sources(tmp_path, **texts):
    (tmp_path / "source").mkdir()
    for name, text in texts.items():
        (tmp_path / "source" / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path / "source", tmp_path / "port"


def test_a_weight_that_another_file_shares_is_read_as_it_lies(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = _sources(tmp_path, model=MODEL, use=USE)
    convert_code(source, port)
    assert _printed(source, "use.py") == _printed(port, "use.py")


HEAD = """import torch
import torch.nn.functional as F
from torch import nn


class Language(nn.Module):
    def __init__(self, words=3, width=3):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        with torch.no_grad():
            self.words.weight.copy_(torch.arange(9.0).reshape(3, 3))

    def scores(self, x):
        return F.linear(x, self.head.weight)
"""

SHARED = """import torch
from head import Language

model = Language()
model.head.weight = model.words.weight
print([[round(float(each), 4) for each in row] for row in model.scores(torch.eye(3))])
"""


def test_a_file_alone_knows_what_the_files_beside_it_share(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    source, port = _sources(tmp_path, head=HEAD, use=SHARED)
    for name in ("head.py", "use.py"):
        convert_code(source / name, port / name)
    assert _printed(source, "use.py") == _printed(port, "use.py")


ANCHORS = """import torch
from torch import nn


class Anchors(nn.Module):
    def forward(self, places, sizes):
        return places.view(-1, 1) + sizes.view(1, -1)

    def other(self, places, sizes):
        return places + sizes
"""


def test_a_function_whose_operator_paddle_refused_is_written_for_several_types(tmp_path):
    (tmp_path / "net.py").write_text(ANCHORS, encoding="utf-8")
    convert_code(tmp_path / "net.py", tmp_path / "port.py")
    before = (tmp_path / "port.py").read_text(encoding="utf-8")
    assert "_mixed" not in before
    line = next(at for at, text in enumerate(before.split("\n"), 1) if "places.view" in text)
    failure = {
        "side": "candidate",
        "message": "(InvalidType) Type promotion only support calculations between …",
        "traceback": f'  File "worker.py", line 3, in call\n  File "{tmp_path / "port.py"}", line {line}, in forward\n  File "elsewhere.py", line 1, in f',
    }
    found = refusing(failure, tmp_path, {"port.py": ANCHORS})
    assert found == Function("port.py", "Anchors.forward")
    assert refusing({**failure, "side": "reference"}, tmp_path, {"port.py": ANCHORS}) is None
    assert refusing({**failure, "message": "another"}, tmp_path, {"port.py": ANCHORS}) is None
    convert_code(tmp_path / "net.py", tmp_path / "port.py", force=True, refused=[Function("net.py", "Anchors.forward")])
    text = (tmp_path / "port.py").read_text(encoding="utf-8")
    assert "return _mixed('+', places.view(-1, 1), sizes.view(1, -1))" in text
    assert "return places + sizes" in text


def _failure(port, *lines):
    frames = "".join(f'  File "{port}", line {line}, in f\n' for line in lines)
    return {"side": "candidate", "message": "Type promotion only support calculations between …", "traceback": frames}


def _line(port, part):
    return next(at for at, text in enumerate(port.read_text(encoding="utf-8").split("\n"), 1) if part in text)


def test_a_function_that_the_converter_wrote_is_not_converted_again(tmp_path):
    source = ANCHORS.replace("places + sizes", "torch.max(places, sizes)")
    (tmp_path / "net.py").write_text(source, encoding="utf-8")
    port = tmp_path / "port.py"
    convert_code(tmp_path / "net.py", port)
    called, inner = _line(port, "places, sizes, "), _line(port, "def _of_two(") + 1
    assert refusing(_failure(port, called, inner), tmp_path, {"port.py": source}) == Function("port.py", "Anchors.other")
    assert refusing(_failure(port, inner), tmp_path, {"port.py": source}) is None


@pytest.mark.parametrize(
    ("prove", "verdict", "seconds"), [(True, "diverged", [0.0, 0.0, 9.0]), (True, "aligned", [0.0, 0.0]), (False, "diverged", [0.0, 0.0])]
)
def test_what_was_converted_again_is_told_and_edits_are_tried_once(tmp_path, capsys, monkeypatch, prove, verdict, seconds):
    (tmp_path / "net.py").write_text(ANCHORS, encoding="utf-8")
    options = Namespace(
        source=tmp_path / "net.py", destination=tmp_path / "out", model="net:Anchors", input=["2"], python=None, prove=prove, seconds=9.0
    )
    made = draft(options.source, options.destination, options.model, options.input)
    port = made.home / "net.py"
    asked = []

    def checked(folder, *, progress, seconds):
        asked.append(seconds)
        failure = _failure(port, _line(port, "places.view")) if "_mixed" not in port.read_text(encoding="utf-8") else None
        return Namespace(result=Namespace(verdict=verdict, stages=[Namespace(failure=failure)]))

    monkeypatch.setattr("paralign.api.repair_project", checked)
    again, _ = _checked(made, options)
    assert asked == seconds
    before, after = made.ledger.counts(), again.ledger.counts()
    assert before != after
    told = capsys.readouterr().out
    assert told.index("converted again: net.py Anchors.forward") < told.index(
        ", ".join(f"{number} {fate.value}" for fate, number in after.items())
    )


def test_places_that_say_the_same_stand_in_one_line(tmp_path):
    body = "".join(f"layer{at} = nn.Conv2d(2, 2, {at})\n" for at in (1, 3, 5)) + "x = torch.ones(2)\nx.unknown_()\n"
    (tmp_path / "net.py").write_text(f"import torch\nfrom torch import nn\n\n{body}", encoding="utf-8")
    lines = convert_code(tmp_path / "net.py", tmp_path / "port.py").lines()
    assert [line for line in lines if line.startswith("condition: net.py:4, 5, 6 torch.nn.Conv2d: ")]
    assert sum(line.startswith("condition: ") for line in lines) == 1


HELD = """import torch
import torch.nn.functional as F


def start(asks):
    return torch.arange(8.0).reshape(4, 2).requires_grad_(asks)


def alone(asks):
    y = start(asks) * 1
    a, b = y.chunk(2)
    a.mul_(2)
    return y.tolist()


def later(asks):
    y = start(asks)
    parts = torch.split(y, 2)
    for each in parts:
        with torch.no_grad():
            each.mul_(2)
    return y.tolist()


def past(asks):
    y = start(asks)
    first = y.unbind(0)[0]
    first.data.add_(2)
    return y.tolist()


def set_at(asks):
    y = start(asks) * 1
    a, b = y.split([1, 3])
    b[0] = 5
    return y.tolist()


def named(asks):
    y = start(asks) * 1
    a = y[1]
    a.mul_(2)
    y.sum().backward()
    return y.tolist()


def turned(asks):
    y = start(asks) * 1
    a = torch.transpose(y, 0, 1)
    F.relu_(a)
    return y.tolist()


def added(asks):
    y = start(asks) * 1
    a, b = y.chunk(2)
    a += b
    c = y[3]
    c -= 1
    return y.tolist()


def numbers(asks):
    sizes = [3, [4]]
    n, more = sizes[0], sizes[1]
    n += 1
    last = sizes[1]
    last += [5]
    return [n, more, sizes]


def free(asks):
    y = start(asks) * 1
    y = y.view(-1)
    y.mul_(2)
    h = start(asks) * 3
    a = h.reshape(8)
    a.mul_(2)
    a += 1
    own = y[:2].clone()
    own.mul_(2)
    b = y[:2]
    b = b * 2
    b.add_(1)
    return [y.tolist(), a.tolist(), own.tolist(), b.tolist()]


"""

#: of a tensor that asks for a gradient: PyTorch refuses it, or changes the whole, which Paddle does not
REFUSED = ["alone", "later", "past", "set_at", "named", "turned", "added"]


@pytest.mark.parametrize("name", [*REFUSED, "numbers", "free"])
def test_a_named_part_is_changed_as_in_pytorch_or_not_at_all(tmp_path, name):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    asking = (
        f"try:\n    print({name}(True))\nexcept NotImplementedError as error:\n    print('refused', 'asks for a gradient' in str(error))\n"
    )
    called = "" if name == "named" else f"print({name}(False))\n"
    (tmp_path / "source.py").write_text(HELD + called, encoding="utf-8")
    (tmp_path / "asking.py").write_text(HELD + asking, encoding="utf-8")
    for each in ("source", "asking"):
        assert not convert_code(tmp_path / f"{each}.py", tmp_path / f"port_{each}.py").left
    assert _printed(tmp_path, "source.py") == _printed(tmp_path, "port_source.py")
    refused = ["refused True"]
    assert _printed(tmp_path, "port_asking.py") == (refused if name in REFUSED and name != "past" else _printed(tmp_path, "asking.py"))
