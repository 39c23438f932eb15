"""Names for parts of tensors whose whole is not there, not read again, or not known to be one."""

from __future__ import annotations

import ast
import time

import pytest
from tests.unit.converted_programs import check_that_it_is_right_or_refused, printed

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.held_parts import is_changed, whole_of
from paralign.port.edits.scope_index import scope_of

pytestmark = pytest.mark.programs

PROGRAM = """import torch
import torch.nn.functional as F


def start(asks):
    return torch.arange(8.0).reshape(4, 2).requires_grad_(asks)


class Store:
    pass


def one_branch(asks, flag=False):
    if flag:
        y = start(asks) * 1
        a = y[0]
        print(y.sum())
    else:
        a = torch.zeros(2)
    a += 1
    return a


def other_branch(asks):
    if asks is None:
        y = start(asks) * 1
        a = y[0]
        print(y.sum())
    else:
        a = torch.zeros(2)
        a.add_(1)
    return a


def deleted(asks):
    s = Store()
    s.buf = torch.ones(2, 3)
    a = s.buf[0]
    del s.buf
    a += 1
    return a + s.__class__.__name__.count("x")


def argument(asks):
    y = start(asks) * 1
    b = y[0]
    held = torch.zeros(2)
    with torch.no_grad():
        held.add_(b)
    return held + y.sum()


def form(asks):
    y = start(asks) * 1
    b = y[0]
    b.unsqueeze_(0)
    return b * 2 + y.sum()


def rebound(asks):
    y = start(asks) + 1
    a = y[0]
    y = y.mean()
    a.mul_(2)
    return a + y


def unread(asks):
    y = -start(asks)
    a = y[0]
    for k in range(2):
        a.add_(k)
    return a


def by_tensor(asks):
    y = start(asks) * 1
    at, mask = torch.tensor([0, 1]), y > 3
    a, b = y[at], y[~mask]
    a += 1
    b.mul_(2)
    return torch.cat([y.flatten(), a.flatten(), b])


def counted(asks):
    sizes = [3, 4]
    for i in range(2):
        n = sizes[i]
        n += 1
    return start(asks) * n


def copied(asks):
    x = start(asks)
    held = torch.zeros(4, 2)
    held.copy_(x * 3)
    (held * held).sum().backward() if asks else None
    return x.grad if asks else held


def listed(asks):
    values = [start(asks) * 1, start(asks) * 2]
    for i in range(2):
        a = values[i]
        a += 1
    return values[0] * values[1]


def row(asks, i=1):
    y = start(asks) * 1
    a = y[i]
    a += 1
    return y


def scalar(asks):
    y = start(asks) * 1
    for i in torch.tensor([0, 2]):
        a = y[i]
        a.mul_(3)
    return y


def pairs(asks):
    y = start(asks) * 1
    a, b = y[0], y[:, 0]
    a += 1
    b.mul_(2)
    return y


def either(asks, flag=False):
    y = start(asks) * 1
    if flag:
        a = y[0]
    else:
        a = y[1]
    a.mul_(2)
    return y


def cut(asks):
    y = start(asks) * 1
    a = y.tensor_split(2)[0]
    a += 1
    return y


def side(asks):
    y = start(asks) * 1
    a, b = torch.hsplit(y, 2)
    a.mul_(2)
    return y


def wide(asks):
    y = start(asks) * 1
    a = y.expand_as(y)
    a.mul_(2)
    return y


"""

#: what works with a gradient, what raises where one is asked for, and what raises at all times
WORKING = ["one_branch", "other_branch", "deleted", "argument", "form", "rebound", "unread", "by_tensor", "counted", "copied", "listed"]
ASKING = ["row", "scalar", "pairs", "either"]
COPIES = ["cut", "side", "wide"]

RUN = """def ran(function, asks):
    try:
        return [round(float(each), 4) for each in function(asks).flatten()]
    except NotImplementedError as error:
        return "refused" if "in place" in str(error) else str(error)


for each in ({names}):
    for asks in (False, True):
        print(each.__name__, asks, ran(each, asks))
"""


def test_parts_are_changed_as_in_pytorch_or_refused_where_paddle_cannot(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    names = [*WORKING, *ASKING, *COPIES]
    check_that_it_is_right_or_refused(tmp_path, PROGRAM + RUN.format(names=", ".join(names)), asking=ASKING, always=COPIES)


HELD = """import torch
from torch import nn


def made():
    layer = nn.LayerNorm(3)
    with torch.no_grad():
        for p in layer.parameters():
            p += 2
            p *= 3
            p /= 4
            p -= 0.25
    return layer


def stepped(asks):
    layer = made()
    layer(torch.arange(3.0).reshape(1, 3)).square().sum().backward()
    with torch.no_grad():
        for p in layer.parameters():
            p -= 0.1 * p.grad
    return layer(torch.arange(3.0).reshape(1, 3))


def averaged(asks):
    layer, kept = made(), made()
    with torch.no_grad():
        for (name, p), (_, q) in zip(layer.named_parameters(), kept.named_parameters()):
            name += "."
            p += 1
            q *= 0.9
            q += 0.1 * p
    return kept(torch.arange(3.0).reshape(1, 3))


def stored(asks):
    layer = made()
    for _, p in layer.state_dict().items():
        p *= 3
    return layer(torch.arange(3.0).reshape(1, 3))


def past(asks):
    layer = made()
    for p in layer.parameters():
        q = p.data
        q += 1
    w = q.detach()
    w *= 2
    return layer(torch.arange(3.0).reshape(1, 3))


def numbers(asks):
    total = 0
    for p in made().parameters():
        total += p.numel()
    return torch.tensor([float(total)])


"""


def test_tensors_of_layers_are_changed_by_signs_as_in_pytorch(tmp_path):
    pytest.importorskip("paddle")
    pytest.importorskip("torch")
    names = "stepped, averaged, stored, past, numbers"
    (tmp_path / "source.py").write_text(HELD + RUN.format(names=names), encoding="utf-8")
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    lines = printed(tmp_path, "source.py")
    assert printed(tmp_path, "port.py") == lines
    assert len(lines) == 10


def _at(code, name="p"):
    """The last place where a name stands, and what is around it."""
    tree = ast.parse(code)
    found = []

    def walk(node, around):
        if isinstance(node, ast.Name) and node.id == name:
            found.append((node, [*around, node]))
        for each in ast.iter_child_nodes(node):
            walk(each, [*around, node])

    walk(tree, [])
    return found[-1]


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("p.mul_(2)", True),
        ("p.data.mul_(2)", True),
        ("p[0] = 1", True),
        ("p.unsqueeze_(0).mul_(2)", True),
        ("init.zeros_(p)", True),
        ("zeros_(p)", True),
        ("a.add_(p)", False),
        ("a.copy_(p)", False),
        ("p.t_()", False),
        ("p.unsqueeze_(0).mul(2)", False),
        ("p.grad.mul_(2)", False),
        ("p.requires_grad_()", False),
        ("init.uniform_(a, p)", False),
    ],
)
def test_what_changes_the_elements_of_a_name(code, changed):
    node, around = _at(code)
    assert is_changed(node, around, lambda called: ast.unparse(called).startswith("init.")) is changed


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("p = y[0]; p", "view True"),
        ("p = y[i]; p", "index True"),
        ("p = y[-i]; p", "index True"),
        ("p = y[[0, 1]]; p", None),
        ("p = y['key']; p", None),
        ("p = y.s[0]; p", "view False"),
        ("p = y.chunk(2)[i]; p", "split True"),
        ("p, q = y.vsplit(2); p", "copy True"),
        ("p, q = y[0], 1; p", "view True"),
        ("q, p = y[0], 1; p", None),
        ("p = y.expand(2, 2)[0]; p", "copy True"),
    ],
)
def test_how_a_name_became_a_part(lines, kind):
    whole = whole_of(*_at(f"def run(y, i):\n    {lines}\n"))
    assert (whole and f"{whole.kind} {whole.sure}") == kind


def test_long_functions_are_searched_once(tmp_path):
    def seconds(count):
        body = "".join(f"    a{at} = x[0]\n    a{at} += 1\n" for at in range(count))
        (tmp_path / f"long{count}.py").write_text(f"import torch\n\n\ndef run(x):\n{body}    return x\n", encoding="utf-8")
        start, before = time.process_time(), scope_of.cache_info().misses
        convert_code(tmp_path / f"long{count}.py", tmp_path / f"port{count}.py")
        return time.process_time() - start, scope_of.cache_info().misses - before

    seconds(1)
    (short, _), (long, found) = seconds(100), seconds(800)
    assert found <= 2
    assert long < 40 * short  # eight times as many; a search for each would be 64


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("return isinstance(m, getattr(nn, name))", True),
        ("return issubclass(type(m), (int, getattr(nn, name)))", True),
        ("return type(m) is getattr(nn, name)", True),
        ("kind = getattr(nn, name)\n    return isinstance(m, kind)", True),
        ("kind = getattr(nn, name)\n    return kind(m) if isinstance(m, int) else m", False),
        ("return getattr(nn, name)(m) == m", False),
    ],
)
def test_a_class_by_its_name_that_objects_are_asked_for_is_left_by_hand(tmp_path, lines, left):
    (tmp_path / "source.py").write_text(f"from torch import nn\n\n\ndef run(m, name):\n    {lines}\n", encoding="utf-8")
    assert bool(convert_code(tmp_path / "source.py", tmp_path / "port.py", force=True).left) is left
