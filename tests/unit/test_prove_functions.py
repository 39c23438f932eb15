"""``port --prove``: each function by itself, on what the original was given; what cannot be held against its original is not proven."""

from __future__ import annotations

import inspect
import json
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.api import opened
from paralign.cli import main
from paralign.dtypes import typed
from paralign.errors import one_line
from paralign.port.edits.ledger import Fate, Ledger, Place
from paralign.port.proofs.line_facts import Fact
from paralign.port.proofs.proving import SILENT, Defined, Seen, _module_name, _of_calls, causes, lines, prove
from paralign.worker.calls.own_functions import _codes, arguments_of
from paralign.worker.calls.plain_values import DEPTH, TENSORS, NotPlain, rebuilt, recorded

SESSION = SimpleNamespace(adapter=SimpleNamespace(is_tensor=lambda value: isinstance(value, np.ndarray), to_array=typed))


class Writer:
    def __init__(self):
        self.added = {}

    def add(self, name, value, *, role, leaf, run):
        self.added[leaf] = value.array


def around(value):
    writer = Writer()
    text = recorded(SESSION, writer, value, "f#1", "input", [])
    return rebuilt(json.loads(text), writer.added)


def test_what_a_call_is_given_comes_back_as_it_was():
    value = {"positional": [np.arange(3.0), 2, 2.5, float("inf"), "text", None, True, (1, [np.ones(2)])], "named": {"size": {"a": -0.0}}}
    back = around(value)
    np.testing.assert_array_equal(back["positional"][0], np.arange(3.0))
    assert back["positional"][1:7] == [2, 2.5, float("inf"), "text", None, True]
    assert back["positional"][6] is True
    assert isinstance(back["positional"][7], tuple)
    assert str(back["named"]["size"]["a"]) == "-0.0"
    assert np.isnan(around(float("nan")))
    assert vars(around(SimpleNamespace(a=1))) == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [object(), lambda x: x, {1: 2}, [np.ones(1)] * (TENSORS + 1), {"a", "b"}, range(3)],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data_is_refused(value):
    with pytest.raises(NotPlain):
        around(value)


def test_containers_that_hold_themselves_are_refused():
    endless: list = []
    endless.append(endless)
    with pytest.raises(NotPlain, match="without end"):
        around(endless)
    deep: list = []
    for _ in range(DEPTH + 2):
        deep = [deep]
    with pytest.raises(NotPlain):
        around(deep)


def test_arguments_of_every_kind_are_read():
    def plain(a, b=2, *rest, key, other=None, **more):
        return arguments_of(inspect.currentframe())

    assert plain(1, 3, 4, 5, key="k", extra=6) == {"positional": [1, 3, 4, 5], "named": {"key": "k", "other": None, "extra": 6}}
    assert plain(1, key=0) == {"positional": [1, 2], "named": {"key": 0, "other": None}}


def test_only_plain_functions_of_imported_modules_are_watched(monkeypatch):
    module = types.ModuleType("watched_module")
    exec("def f(x): return x\ndef g(x): yield x\nasync def h(x): return x\nclass C: pass\nk = 3", vars(module))
    monkeypatch.setitem(sys.modules, "watched_module", module)
    names = [f"watched_module:{name}" for name in "fghCk"] + ["not_there:f", "os:system", "nothing"]
    assert list(_codes(names).values()) == ["watched_module:f"]


def test_names_of_modules():
    assert _module_name(Defined("net.py", 1, 2, "f", False), "") == "net:f"
    assert _module_name(Defined("a/__init__.py", 1, 2, "f", False), "pkg") == "pkg.a:f"
    assert _module_name(Defined("__init__.py", 1, 2, "f", False), "pkg") == "pkg:f"


def test_what_is_known_to_differ_is_told_of_what_is_not_proven():
    ledger = Ledger()
    ledger.places += [
        Place("net.py", 3, 0, "torch.std", Fate.CONDITION, "x", "only where one element is left"),
        Place("net.py", 4, 0, "torch.relu", Fate.EQUAL, "x"),
        Place("net.py", 9, 0, "torch.other", Fate.CONDITION, "x", "elsewhere"),
    ]
    assert causes(Defined("net.py", 2, 5, "f", False), ledger) == ("line 3: torch.std: only where one element is left",)
    assert causes(Defined("other.py", 2, 5, "f", False), ledger) == ()


NET = """import functools
import torch
from torch import nn


def scaled(x, by=2.0, *, shift=None):
    return x * by if shift is None else x * by + shift


def parts(x):
    return {"low": torch.min(x), "rest": [x - 1, (x.shape[0], "name")]}


def in_place(x):
    x.add_(1.0)


def noted(kept, x):
    kept["sum"] = float(x.sum())


def quiet(x):
    kept = [x]


def refuses(x):
    x.add_(1.0)
    raise ValueError("no")


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count = self.count + 1
        return x, float(self.count)


class Idle(nn.Module):
    def forward(self, x):
        return None


class Tanh(nn.Module):
    pass


def weighted(x, weight):
    return x @ weight.t()


def drawn(x):
    return x + torch.rand(2, 3)


def of_layer(layer, x):
    return layer(x)


def unused(x):
    return x


def wrong(x):
    return torch.tanh(x)


class Net(nn.Module):
    def __init__(self, act=scaled):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.act = functools.partial(act, by=3.0)
        self.counting, self.idle, self.tanh = Counting(), Idle(), nn.Tanh()

    def forward(self, x):
        x = self.act(of_layer(self.fc, x), shift=1.0)
        in_place(x)
        x = self.tanh(self.counting(x)[0])
        self.idle(x), quiet(x), noted({}, x)
        try:
            refuses(x * 1.0)
        except ValueError:
            pass
        x = wrong(x) + parts(x)["low"]
        return x + 0.0 * drawn(x) + 0.0 * torch.sum(weighted(x, x))
"""


@pytest.mark.torch
@pytest.mark.paddle
def test_functions_are_held_against_their_originals_by_themselves(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "net.py").write_text(NET)
    out = tmp_path / "out"
    code = main(["port", str(tmp_path / "src"), str(out), "--model", "net:Net", "--input", "2x4", "--prove"])
    told = capsys.readouterr().out
    facts = {each["name"]: each["fact"] for each in json.loads((out / "proof.json").read_text())["proofs"]}
    proven = {name for name, fact in facts.items() if fact == "proven"}
    assert proven >= {"scaled", "parts", "in_place", "weighted", "wrong", "noted", "Counting"}, told
    assert facts["unused"] == facts["of_layer"] == facts["refuses"] == "not reached"
    assert facts["Tanh"] == "not reached", "a layer of the framework of that name is another one"
    assert facts["drawn"] == facts["quiet"] == facts["Idle"] == "reached but not proven"
    assert code == 1
    assert "of_layer: it cannot be called by itself: it is given a Linear" in told

    port = out / "port" / "net.py"
    text = port.read_text()
    port.write_text(
        text.replace("tanh(x)", "sin(x)")
        .replace('kept["sum"] = float(x.sum())', 'kept["sum"] = float(x.sum()) + 1.0')
        .replace("else x * by + shift", "else x * by * 1.001 + shift")
        .replace("def parts(x):", "def parts_(x):")
        + "\n\ndef parts(x):\n    raise ValueError('\\x1b[2J no')\n"
    )
    with opened(out) as context:
        found = prove(context, Ledger(), {"net.py": NET})
    facts = {each.name: each for each in found.proofs}
    assert {name: facts[name].fact for name in ("wrong", "scaled", "parts")} == dict.fromkeys(("wrong", "scaled", "parts"), Fact.UNPROVEN)
    assert "apart" in facts["wrong"].reason
    assert "arguments otherwise" in facts["noted"].reason
    assert facts["Counting"].fact is Fact.UNREACHED, "the port's forward pass raises"
    assert "the port raises ValueError" in facts["parts"].reason
    assert not [line for line in lines(found) if "\x1b" in one_line(line)]
    assert facts["in_place"].fact is facts["weighted"].fact is Fact.PROVEN, "whatever is wrong elsewhere"


@pytest.mark.parametrize(("calls", "fact"), [(1, Fact.UNPROVEN), (2, Fact.PROVEN)])
def test_a_call_that_says_nothing_speaks_neither_for_nor_against_the_others(calls, fact):
    seen = Seen(calls=calls)
    seen.note("call 1", SILENT)
    found = _of_calls(Defined("m.py", 1, 2, "pad", is_class=False), seen, "")
    assert found.fact is fact
    assert found.reason == ("" if fact is Fact.PROVEN else f"call 1: {SILENT}")
