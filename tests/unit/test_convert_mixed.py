"""Calls and operators that Paddle refuses for their operands' types, and settings and types that it names otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate
from paralign.port.plans.operators import as_calls, is_operator

pytestmark = pytest.mark.programs

PROGRAM = """import torch
from torch import nn
import torch.nn.functional as F


def kind(x):
    return str(x.dtype).rpartition(".")[2], list(x.shape), [round(each, 5) for each in x.flatten().tolist()]


def operators(x, y):
    at = torch.arange(3)
    kept = x > 0
    small = at.int()
    total = x.clone()
    total += kept
    found = [at * x, kept * y, at / x, small + at, kept + y, at == y, at < x, x ** at, kept / kept, at % small.add(1), total]
    return [kind(each) for each in found]


def bits():
    at = torch.tensor([1, 2, 7])
    marks = torch.tensor([True, False, True])
    found = [at & 3, 4 | at, at ^ marks, at << 1, marks & True, marks & 3, torch.bitwise_or(at, 8), at.bitwise_and(6)]
    at &= 3
    return [kind(each) for each in [*found, at]]


def functions(x):
    at = torch.arange(3)
    found = [torch.add(at, x), torch.sub(x, at, alpha=2), at.mul(x), at.div(x), torch.div(at, x, rounding_mode="floor"), torch.pow(at, x)]
    found += [torch.cat([at, x]), torch.stack((x > 0, at)), torch.hstack([at, x]), torch.eq(at, x)]
    each = torch.add
    return [kind(one) for one in [*found, each(at, x)]]


def bounds(x, low, high):
    found = [torch.clamp(x, low, high), x.clamp(min=low), torch.clamp(torch.arange(3), low, high), x.clamp(0, 1)]
    return [kind(each) for each in found]


def largest(a, b, axis):
    return [kind(each) for each in (torch.max(a, b), a.min(b), torch.max(torch.arange(3), b), torch.max(a, axis)[0], torch.max(a, -1)[0])]


def sizes(size):
    image, line, block = torch.arange(16.0).reshape(1, 1, 4, 4), torch.arange(8.0).reshape(1, 2, 4), torch.arange(8.0).reshape(1, 1, 2, 2, 2)
    found = [F.interpolate(image, size=3), F.interpolate(image, size, mode="bilinear"), F.interpolate(line, size), F.interpolate(block, 3)]
    found += [F.interpolate(image, size=line.shape[1:]), nn.Upsample(size=3)(image), nn.Upsample(size, mode="bilinear")(image)]
    return [kind(each) for each in found]


def types():
    at = torch.arange(3)
    asked = [torch.promote_types(torch.int32, torch.float32), torch.promote_types(torch.uint8, torch.int8), torch.result_type(at, 1.5)]
    asked += [torch.result_type(torch.ones(2, dtype=torch.float16), torch.tensor(1.0, dtype=torch.float64)), torch.result_type(1, 1.0)]
    can = [torch.can_cast(torch.double, torch.int), torch.can_cast(torch.int, torch.half), torch.can_cast(torch.int, torch.bool)]
    return [str(each).rpartition(".")[2] for each in asked], can


def adjoints(x):
    known = torch.tensor([[1 + 2j, 3 - 1j]])
    class Own:
        H = "own"
    return known.H.real.tolist(), known.mH.imag.tolist(), x.H.tolist(), adjoint_of(Own())


def adjoint_of(x):
    return x.H


def listed():
    given, part = [0, 5, 2], (5,)
    return [kind(each) for each in (torch.arange(*given), torch.arange(*part, dtype=torch.float32), torch.arange(1, *part))]


def started():
    start = torch.zeros(2, 3)
    again = nn.init.eye_(start)
    layer = nn.Linear(3, 2, bias=False)
    nn.init.eye_(layer.weight)
    return start.tolist(), again is start, layer(torch.tensor([[1.0, 2.0, 3.0]])).tolist()


def rates():
    net = nn.Linear(2, 1)
    made = [torch.optim.RMSprop(net.parameters()), torch.optim.Adagrad(net.parameters())]
    return [each.param_groups[0]["lr"] for each in made]


def kept_parameters():
    held = nn.ParameterDict({"a": nn.Parameter(torch.ones(2)), "b": nn.Parameter(torch.zeros(1))})
    names = [name for name, each in held.items()], list(held.keys()), [each.sum().item() for each in held.values()]
    gone = held.pop("a")
    held.update({"c": nn.Parameter(torch.ones(3))})
    return names, gone.tolist(), "a" in held, sorted(held), held.get("none"), len(held), isinstance(held, nn.ParameterDict)


def momenta():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=0.2))
    before = net[1].momentum
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.momentum *= 2
            layer.eps = 0.5
    asked = hasattr(net[1], "momentum"), getattr(net[1], "momentum"), hasattr(net[0], "momentum")
    setattr(net[1], "momentum", 0.25)
    net[1].train()
    net[1](torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    return before, asked, net[1].momentum, net[1].running_mean.tolist()


def handed(norm=nn.BatchNorm2d):
    layer = norm(1)
    layer.momentum = 0.5
    layer(torch.ones(1, 1, 2, 2))
    return layer.momentum, layer.running_mean.tolist()


def empty():
    found = [torch.cdist(torch.empty(3, 0, 4), torch.empty(3, 2, 4)), torch.cdist(torch.empty(0, 4), torch.empty(2, 4))]
    found += [torch.fmod(torch.tensor([5, -7]), torch.tensor([2.0, 3.0])), torch.tensor(1 + 2j).H.imag]
    found += [F.interpolate(torch.ones(1, 1, 4), size=2), torch.isin(torch.arange(3), torch.tensor([1]), assume_unique=True)]
    total, at = torch.sum, torch.argmax
    return [kind(each) for each in [*found, total(torch.ones(3)), at(torch.arange(3))]]


x, y = torch.tensor([1.5, -2.0, 0.5]), torch.tensor([2.0, 3.0, 4.0])
"""

CASES = [
    "operators(x, y)", "bits()", "functions(x)", "bounds(x, torch.tensor(-1.0), torch.tensor([1.0, 1.0, 0.25]))", "bounds(x, -1, 1)",
    "largest(x, y, -1)", "sizes(3)", "types()", "adjoints(torch.tensor([[1.0, 2.0]]))", "listed()", "started()", "rates()",
    "kept_parameters()", "empty()", "momenta()", "handed()",
]  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What each case prints in PyTorch and in Paddle."""
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("mixed")
    lines = "".join(f"print({each!r}, {each})\n" for each in CASES)
    (folder / "source.py").write_text(PROGRAM + lines, encoding="utf-8")
    ledger = convert_code(folder / "source.py", folder / "port.py", force=True)
    assert not ledger.left, ledger.left
    given = [
        subprocess.run([sys.executable, folder / name], capture_output=True, text=True, check=False) for name in ("source.py", "port.py")
    ]
    assert [each.returncode for each in given] == [0, 0], given[1].stderr[-2000:]
    return [[line for line in each.stdout.splitlines() if line.startswith(tuple(CASES))] for each in given]


@pytest.mark.parametrize("at", range(len(CASES)), ids=CASES)
def test_values_types_and_shapes_are_pytorchs(outcomes, at):
    assert outcomes[1][at] == outcomes[0][at]


def converted(tmp_path, body):
    (tmp_path / "source.py").write_text(body, encoding="utf-8")
    ledger = convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True)
    return (tmp_path / "port.py").read_text(encoding="utf-8"), ledger


def test_what_is_known_to_be_of_one_type_stays_an_operator(tmp_path):
    body = "import torch\n\n\ndef run(x: torch.Tensor, n: int):\n    w = torch.ones(3)\n    at = torch.arange(4)\n"
    body += "    return x + w, w * n, at * n, at + at, at / x.shape[0], (x > 0) & (w > 0), x * 2, torch.add(w, 3), n & 1\n"
    text, _ = converted(tmp_path, body)
    assert "_mixed" not in text


def test_settings_of_a_program_are_no_layers(tmp_path):
    body = "import torch\n\n\ndef run(args, layer, x):\n    args.momentum = 0.5\n    return args.momentum, hasattr(args, 'eps'), layer.momentum\n"
    text, _ = converted(tmp_path, body)
    assert "args.momentum = 0.5" in text
    assert "return args.momentum, hasattr(args, 'eps'), _attribute(layer, 'momentum', '_momentum')" in text


def test_a_template_of_operators():
    assert as_calls("{input} + {alpha} * {other}") == "_mixed('+', {input}, _mixed('*', {alpha}, {other}))"
    assert as_calls("{self} == {other}") == "_mixed('==', {self}, {other})"
    assert not is_operator("paddle.abs({input})")
    assert not is_operator("{self}.ndim")


WEIGHTS = """import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
other = nn.Linear(2, 3)
for p in net.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
for name, p in net.named_parameters():
    print(name, p.shape)
total = sum(p.numel() for p in net.parameters())
norm = sum(p.grad.norm() ** 2 for p in net.parameters() if p.grad is not None)
state = net.state_dict()
first = state["0.weight"][0]  # told
state["0.weight"] = torch.ones(3, 2)  # told
for name, each in state.items():
    print(name, each.sum().item())
    kept = each.numpy()  # told
torch.save(net.state_dict(), "file")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for p, q in zip(other.parameters(), net.parameters()):
    p.data.mul_(0.9).add_(q.data, alpha=0.1)
shadow = {name: p.clone() for name, p in net.named_parameters()}
flat = torch.cat([p.view(-1) for p in net.parameters()])  # told
wide = next(net.parameters()).shape[0]  # told
listed = list(net.parameters())
turned = listed[0].t()  # told
highest = listed[0].max()
for p in net.parameters():
    p.data.copy_(torch.randn(3, 2))  # told
rows = [p.sum(1) for p in net.parameters()]  # told
"""


def test_lines_that_look_at_elements_of_weights_are_told(tmp_path):
    _, ledger = converted(tmp_path, WEIGHTS)
    told = {each.line for each in ledger.places if each.name == "torch.nn.Linear.weight" and each.fate is Fate.CONDITION}
    assert told == {at for at, line in enumerate(WEIGHTS.splitlines(), 1) if line.endswith("# told")}
