"""``convert code --prove``: an entry is run once, its calls are made again on both sides; what was not shown equal is not proven."""

from __future__ import annotations

import importlib
import json
import re
import sys
import textwrap
from argparse import Namespace
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.api.code_proof import Conversion, not_asked, prove_code
from paralign.capture import Capture
from paralign.cli import main
from paralign.dtypes import typed
from paralign.errors import UsageError
from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate, Ledger
from paralign.port.proofs.line_facts import Fact, LineFact, Proof
from paralign.port.proofs.proof_entries import entry_of, recorded_definitions
from paralign.port.proofs.proving import NOTHING, TOLERANCE, Defined, Proven, Seen, forget_proof, lines, proof_of, values_apart
from paralign.port.proofs.proving_code import Evidence, code_of, entry_proofs
from paralign.port.proofs.told_results import told_apart
from paralign.worker.calls import plain_values
from paralign.worker.calls.entry import entry
from paralign.worker.calls.plain_values import NotPlain, rebuilt, recorded
from paralign.worker.calls.result_figures import Agreement, figures, figures_agree
from paralign.worker.passes import again as again_module
from paralign.worker.passes.again import again
from paralign.worker.protocol import Again, AgainCall, AgainTold, Entry, EntryCall, EntryTold, MadeObject
from paralign.worker.protocol.wire import encode
from paralign.worker.sides.session import Session


class Model:
    """What the fake framework takes for a model."""


SESSION = SimpleNamespace(
    adapter=SimpleNamespace(
        is_tensor=lambda value: isinstance(value, np.ndarray) and value.dtype.kind == "f",
        to_array=typed,
        modules=lambda value: [("", value)],
        is_model=lambda value: any(each.__name__ == "Model" for each in type(value).__mro__),
        state=lambda _: [SimpleNamespace(tensor=np.ones((2, 2)), name="weight", role="parameter", shared=None)],
    )
)


class Writer:
    def __init__(self):
        self.added = []

    def add(self, name, value, *, role, leaf, run, attrs=None):
        self.added.append((name, leaf, value.array))

    def flush(self):
        pass


def told(value, more=None):
    return recorded(SESSION, Writer(), value, "f#1", "input", [], more)


def test_results_are_apart_by_their_numbers():
    one = told({"loss": 0.5, "parts": [1, (2, "a")]})
    assert told_apart(one, told({"loss": 0.5, "parts": [1, (2, "a")]})) == 0.0
    assert 1e-17 < told_apart(one, told({"loss": 0.5 + 1e-16, "parts": [1, (2, "a")]})) < 1e-15
    assert told_apart(told(float("nan")), told(float("nan"))) == 0.0
    for other in ({"loss": 0.5, "parts": [1, [2, "a"]]}, {"loss": 0.5}, {"loss": 0.5, "parts": [1.0, (2, "a")]}, None, [one]):
        assert told_apart(one, told(other)) == float("inf")
    assert told_apart(told(float("inf")), told(-float("inf"))) == float("inf")


def test_a_shape_is_a_list_there_and_a_tuple_here():
    class Size(tuple):
        __slots__ = ()

    shape = told(Size((2, 3)))
    assert told_apart(shape, told([2, 3])) == 0.0
    assert told_apart(shape, told((2, 3))) == float("inf")
    assert rebuilt(json.loads(shape), {}) == (2, 3)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (OrderedDict(a=1, b=[0.5]), {"a": 1, "b": [0.5]}),
        (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        ([OrderedDict(a=1, b=2)], [OrderedDict(b=2, a=1)]),
        (SimpleNamespace(**{"self": 1, "x-y": 2}), SimpleNamespace(self=1)),
        (Namespace(**{"lr": 1, "x-y": 2}), Namespace(lr=1)),
        (Namespace(lr=0.1, steps=3), SimpleNamespace(lr=0.1, steps=3)),
        (SimpleNamespace(lr=0.1), SimpleNamespace(lr=0.2)),
    ],
)
def test_containers_with_names_stay_what_they_are(value, other):
    back = rebuilt(json.loads(told(value)), {})
    assert (type(back), back) == (type(value), value)
    assert told_apart(told(value), told(back)) == 0.0
    assert told_apart(told(value), told(other)) > TOLERANCE


def test_a_partial_is_recorded_where_its_function_is_known():
    def more(each):
        return {"named": "net:shift"} if each is told else None

    text = told(partial(told, 1, by=(2, 3)), more)
    back = rebuilt(json.loads(text), {}, lambda _: told)
    assert (back.func, back.args, back.keywords) == (told, (1,), {"by": (2, 3)})
    assert told_apart(text, told(partial(told, 1, by=(2, 4)), more)) == float("inf")
    with pytest.raises(NotPlain, match="builtin_function_or_method"):
        told(partial(len, []), more)


def test_arrays_stay_arrays():
    writer = Writer()
    text = recorded(SESSION, writer, [np.arange(3), np.ones(2)], "f#1", "input", [])
    assert json.loads(text) == {"list": [{"array": 0}, {"tensor": 1}]}
    assert [leaf for _, leaf, _ in writer.added] == ["0", "1"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (list(range(plain_values.VALUES + 1)), "more than 100000 values"),
        ("x" * (plain_values.TEXT + 1), "a text of more than"),
        (np.broadcast_to(np.ones(1), (plain_values.BYTES // 8 + 1,)), "more than 256 MiB"),
        (np.array(["a"], object), "a ndarray"),
    ],
    ids=["values", "text", "tensor", "objects"],
)
def test_too_much_is_refused_before_it_is_copied(value, said):
    with pytest.raises(NotPlain, match=said):
        told(value)


# -- the entry ----------------------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import copy

import numpy as np
from dataclasses import dataclass


class Model:
    pass


@dataclass
class Config:
    width: int = 3


class Net(Model):
    def __init__(self, config):
        self.width = config.width

    def forward(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return x * self.width


class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, x):
        self.add(x)

    def add(self, x):
        self.total += float(x.sum())

    @staticmethod
    def zero(n):
        return n

    @classmethod
    def named(cls, name):
        return cls()

    @property
    def mean(self):
        return self.total


class Derived(Meter):
    pass


class Bare:
    def act(self):
        return 1


def fact(n):
    return 1 if n < 2 else n * fact(n - 1)


def items(n):
    yield from range(n)


def of_net(net, x):
    return net.forward(x)


def by(function, x):
    return function(x)


def unused():
    return 1


def copies():
    other = copy.deepcopy(Net(Config(4)))
    other.forward(np.ones(2))


def copies_of_plain():
    meter = Meter()
    copy.copy(meter).update(np.ones(2))


def copies_of_plain_too():
    meter = Meter()
    meter.update(np.ones(2))
    other = copy.copy(meter)
    other.update(np.ones(2))


def copies_by_method():
    meter = Meter()
    meter.update(np.ones(2))
    copy.copy(meter).add(np.ones(2))


def copies_of_derived():
    meter = Derived()
    meter.add(np.ones(1))
    copy.copy(meter).update(np.ones(2))
    Meter().add(np.ones(1))


def late():
    for _ in range(5):
        meter = Meter()
    meter.update(np.ones(2))


def later():
    meter = Meter()
    for _ in range(4):
        meter.add(np.ones(1))
    meter.update(np.ones(2))


def copies_too():
    first = Net(Config(4))
    first.forward(np.ones(2))
    copy.deepcopy(first).forward(np.ones(2))


def run():
    net = Net(Config(4))
    net.forward(np.ones(2))
    net.scaled(np.ones(1))
    of_net(net, np.ones(1))
    meter = Meter()
    meter.update(np.ones(2))
    meter.update(np.ones(3))
    Meter.zero(3), Meter.named("a"), meter.mean
    Bare().act()
    fact(6)
    list(items(2))
    by(fact, 1)


def ends(code=0):
    fact(1)
    sys.exit(code)


def ends_badly():
    sys.exit(3)


def raises():
    fact(1)
    raise RuntimeError("no")


if __name__ == "__main__":
    run()
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    name = f"program_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / f"{name}.py"
    sys.modules.pop(name, None)


def ran(program, target, kind="function", most=4):
    defined = recorded_definitions({program.name: PROGRAM}, program.parent)
    place = str(program) if kind == "script" else f"{program.stem}:{target}"
    before = sys.getprofile(), list(sys.path), list(sys.argv)
    try:
        return entry(SESSION, Writer(), Entry(kind, place, defined, most), {})
    finally:
        assert (sys.getprofile(), sys.path, sys.argv) == before


@pytest.mark.parametrize("kind", ["function", "script"])
def test_calls_of_functions_and_objects_are_recorded(program, kind):
    found = ran(program, "run", kind)
    module = program.stem
    calls = [(each.name.partition(":")[2], each.object_, each.problem) for each in found.calls]
    objects = {each.number: each.class_.partition(":")[2] for each in found.objects}
    names = [name for name, _, _ in calls]
    assert names.count("fact") == 4, "a function that calls itself: its first calls"
    assert [name for name, number, _ in calls if objects.get(number) == "Net"] == ["Net.forward", "Net.scaled", "Net.forward"]
    assert [name for name, number, _ in calls if objects.get(number) == "Meter"][:3] == ["Meter.__init__", "Meter.update", "Meter.update"]
    assert {"Meter.zero", "Meter.named", "Bare.act", "Config.__init__", "by"} <= set(names)
    assert "Meter.mean" not in names
    assert [problem for name, _, problem in calls if name == "of_net"] == ["it is given a Net"]
    assert found.hidden == {f"{module}:items": "it is a generator"}
    assert f"{module}:unused" not in found.reached
    assert f"{module}:items" in found.reached
    net = next(each for each in found.objects if each.class_.endswith(":Net"))
    assert (net.model, net.called, net.depth, net.problem) == (True, True, 0, "")
    assert '"object"' in net.arguments, "its configuration is an object that can be made again"
    by = next(each for each in found.calls if each.name.endswith(":by"))
    assert json.loads(by.arguments)["dict"]["positional"]["list"][0] == {"named": f"{module}:fact"}
    assert ("run" in names) is (kind == "script"), "the entry itself is no call of the program"


@pytest.mark.parametrize(("target", "hidden"), [("copies", True), ("copies_too", False)])
def test_copies_hide_a_class_that_has_no_other_object(program, target, hidden):
    found = ran(program, target)
    assert (f"{program.stem}:Net" in found.hidden) is hidden


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        ("copies_of_plain", {"Meter", "Meter.update"}),
        ("copies_of_plain_too", set()),
        ("copies_by_method", {"Meter", "Meter.add"}),
        ("copies_of_derived", {"Derived", "Meter.update"}),
        ("late", {"Meter", "Meter.update"}),
        ("later", {"Meter", "Meter.update"}),
    ],
)
def test_a_method_that_no_recorded_object_was_asked_for_hides_its_class(program, target, hidden):
    found = ran(program, target)
    assert {key.partition(":")[2] for key in found.hidden} == hidden
    evidence = Evidence(found, {program.stem: program.name}, recorded_definitions({program.name: PROGRAM}, program.parent))
    seen = evidence.seen(f"{program.stem}:Meter")
    assert (seen is not None and bool(seen.why)) is bool(hidden)


RAISING = """
import numpy as np

COUNT = [0]


class Taker:
    at = 0

    def take(self, x):
        self.at += 1
        if self.at == 1:
            raise ValueError("not yet")
        return x * self.at


def risky(x):
    COUNT[0] += 1
    raise ValueError("never")


def read(x):
    return x * COUNT[0]


def fails(x):
    raise ValueError("it is a data set's")


def run():
    taker = Taker()
    for each in (risky, taker.take, fails, taker.take, read, risky, read):
        try:
            each(np.ones(2))
        except ValueError:
            pass
"""


def test_what_a_call_changed_before_it_raised_is_changed_in_the_port_too(held):
    reasons = held(RAISING)
    assert reasons["read"] == ""
    for name in ("risky", "fails", "Taker"):
        assert "the original cannot be called by itself: ValueError" in reasons[name]


def test_another_change_before_a_call_raised_is_a_difference(held):
    assert "apart" in held(RAISING, ("COUNT[0] += 1", "COUNT[0] += 2"))["read"]


def test_a_call_that_raised_and_changed_nothing_is_not_asked_of_the_port():
    told_ = AgainTold(
        [AgainCall("m:f", 1, problem="ValueError"), AgainCall("m:g", 1, problem="ValueError", left=True), AgainCall("m:h", 1)]
    )
    assert not_asked(told_) == ["m:f#1"]


def test_calls_that_the_original_cannot_make_are_left_out():
    told_ = EntryTold([EntryCall("m:f", 1), EntryCall("m:f", 2), EntryCall("m:g", 1)])
    due = [call for call in told_.calls if again_module._is_due(call, told_, Again(left_out=["m:f#2"]))]
    assert [(call.name, call.number) for call in due] == [("m:f", 1), ("m:g", 1)]


def test_no_more_objects_than_asked_for_are_kept(program):
    assert [each.class_ for each in ran(program, "run", most=0).objects] == []


def test_an_entry_that_ends_or_fails(program):
    assert [each.name for each in ran(program, "ends").calls] == [f"{program.stem}:fact"]
    with pytest.raises(UsageError, match=r"sys.exit\(3\)"):
        ran(program, "ends_badly")
    with pytest.raises(RuntimeError, match="no"):
        ran(program, "raises")
    with pytest.raises(UsageError, match="no function 'rum'"):
        ran(program, "rum")


def test_what_is_no_entry_is_refused_before_anything_is_run(tmp_path, capsys):
    source = tmp_path / "src"
    source.mkdir()
    (source / "net.py").write_text("raise SystemExit('imported')\n\ndef run():\n    pass\n")
    (source / "train.py").write_text("raise SystemExit('run')\n")
    assert entry_of("net:run", source).target == "net:run"
    assert entry_of("train.py", source).kind == "script"
    for text, said in (
        ("net:rum", "the module has no 'rum'"),
        ("nat:run", "there is no module 'nat'"),
        ("other.py", "the entry is not there"),
        ("other.toml", "the entry is not there"),
        ("run()", "is no entry"),
        ("net:run()", "is no entry"),
        ("", "is no entry"),
    ):
        with pytest.raises(UsageError, match=r"\w") as raised:
            entry_of(text, source)
        assert said in str(raised.value)
    out = tmp_path / "out"
    for words in (
        ["--prove"],
        ["--entry", "net:run"],
        ["--prove", "--entry", "net:rum"],
        ["--prove", "--entry", "net:run", "--timeout", "0"],
    ):
        assert main(["convert", "code", str(source), str(out), *words]) == 2
        assert not out.exists()
    assert "--prove needs an entry" in capsys.readouterr().err


def test_a_proof_of_other_code_does_not_stay(tmp_path):
    proof, other = tmp_path / "proof.json", tmp_path / "other.json"
    proof.write_text('{"tolerance": 1e-8, "proofs": [], "lines": []}')
    other.write_text('{"mine": 1}')
    for path in (proof, other, tmp_path / "missing"):
        forget_proof(path)
    assert not proof.exists()
    assert other.exists()


# -- calls made again, without processes of their own -------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Run ``run()`` of a text, make its calls again with it and with a changed one; gives the reason of each definition."""
    name = f"again_{abs(hash(str(tmp_path)))}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / f"{name}.py"

    def side(which, text, framework, options, values, build=None):
        sys.modules.pop(name, None)
        path.write_text(text)
        importlib.invalidate_caches()
        session = Session(which, {} if build is None else {"build_model": build}, framework)
        to = tmp_path / f"{which}-{options.task}-{getattr(options, 'object_', '')}"
        with session.capture(str(to), options.task, {}) as writer:
            act = entry if options.task == "entry" else again
            answer = act(session, writer, options, values)
            writer.manifest.settings["answer"] = encode(answer)
        capture = Capture.open(to)
        capture.answer = answer
        return capture

    def reasons(text, change=("", ""), framework="numpy"):
        text = textwrap.dedent(text)
        defined = recorded_definitions({path.name: text}, tmp_path)
        told = side("reference", text, framework, Entry("function", f"{name}:run", defined), {})
        evidence = Evidence(Entry.answer(told), {name: path.name}, defined)
        for number in [0, *[each.number for each in evidence.models() if not evidence.is_held(each)]]:
            build = partial(again_module.build, str(told.path), number, framework, stated=True) if number else None
            order = Again(number, definitions=defined)
            pair = (side("reference", text, framework, order, {"entry": told}, build),)
            theirs = order if number else replace(order, left_out=not_asked(Again.answer(pair[0])))
            pair += (side("candidate", text.replace(*change), framework, theirs, {"entry": told}, build),)
            evidence.take(*pair, number)
        known = {each.name: evidence.seen(each.key) for each in defined if "." not in each.name}
        return {key: None if seen is None else seen.why or (NOTHING if seen.compared == 0 else "") for key, seen in known.items()}

    yield reasons
    sys.modules.pop(name, None)


PLAIN = """
import numpy as np
from collections import defaultdict, deque

SCALE = 1.0
COUNT = 0
KEPT = defaultdict(float)


class Log:
    lines = 0


def counted(x):
    global COUNT
    COUNT += 1
    return x * 2


def logged(x):
    Log.lines = Log.lines + 1


def kept(x):
    KEPT["x"] = x
    return x * 2


def not_finite(x):
    return x * float("nan")


def no_elements(x):
    return x[:0]


def empty(x):
    return [None, {}]


def tiny(x):
    return x * 1e-9


def tiny_scaled(x):
    return x * 1e-9 * SCALE


def named(x):
    return x * 2


def gives_named(x):
    return named


def closed(x):
    def inner(y):
        return x + y
    return inner


def lambda_of(x):
    return lambda y: y * x


def written(into, x):
    into["sum"] = float(x.sum())


def appended(items, x):
    items.append(x * 3)
    return len(items)


def scaled(x):
    return x * SCALE


def updated(meter, x):
    meter.total = meter.total + x * 5


class Empty:
    def __init__(self, x):
        x + 1


class Ordered:
    def __init__(self, x):
        self.x, self.order = x, defaultdict(float, a=x)


class Queue:
    def __init__(self, x):
        self.x, self.items = x, deque([x])


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x * 7


class Meter:
    def __init__(self):
        self.total, self.by = 0.0, 1.0

    def mean(self, x):
        return x * self.by


class Right:
    def __init__(self):
        self.total = 0.0

    def add(self, x):
        self.total = self.total + x


def run():
    global SCALE
    x = np.array([1.0, 2.0, 4.0])
    SCALE = 3.0
    gives_named(x), closed(x), lambda_of(x), written({}, x), appended([1.0], x), scaled(x)
    counted(x), logged(x), kept(x), not_finite(x), no_elements(x), empty(x), tiny(x), tiny_scaled(x)
    Empty(x), Ordered(x), Queue(x), Slots(x)
    meter = Meter()
    updated(meter, x)
    other = Meter()
    other.by = 9.0
    other.mean(x)
    right = Right()
    right.add(x)
"""


def test_what_was_not_compared_is_not_proven(held):
    reasons = held(PLAIN)
    right = ["counted", "logged", "tiny", "gives_named", "written", "appended", "updated", "Slots", "Right"]
    assert [name for name, reason in reasons.items() if reason == ""] == right
    said = {
        "kept": "changes 'NAME:KEPT', which holds a defaultdict",
        "not_finite": "nothing finite",
        "no_elements": "nothing finite",
        "empty": "nothing finite",
        "tiny_scaled": "below 1e-06",
        "closed": "gives back a function",
        "lambda_of": "gives back a function",
        "scaled": "depends on more than its arguments",
        "Empty": "gives nothing back",
        "Ordered": "the attribute 'order' of its object is a defaultdict",
        "Queue": "the attribute 'items' of its object is a deque",
        "Meter": "depends on more than its arguments",
    }
    for name, part in said.items():
        assert part in re.sub(r"again_\d+", "NAME", reasons[name]), (name, reasons)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ('into["sum"] = float(x.sum())', 'into["sum"] = float(x.sum()) + 1', "written"),
        ('into["sum"] = float(x.sum())', "pass", "written"),
        ("items.append(x * 3)", "items.append(x * 4)", "appended"),
        ("meter.total + x * 5", "meter.total + x * 6", "updated"),
        ("self.x = x * 7", "self.x = x * 8", "Slots"),
        ("COUNT += 1", "COUNT += 2", "counted"),
        ("COUNT += 1", "pass", "counted"),
        ("Log.lines + 1", "Log.lines + 2", "logged"),
        ("    return named\n", "    return Meter\n", "gives_named"),
    ],
)
def test_what_a_call_changes_is_compared(held, one, other, name):
    assert held(PLAIN, (one, other))[name]


MODELS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x)

    def penalty(self, by):
        return by * 2


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.last = 0

    def forward(self, x):
        self.seen.add_(1)
        self.last = self.last + 1
        return x * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.told = Told()
        self.quiet = Quiet()

    def forward(self, x):
        self.quiet(x)
        return self.inner(x) * self.told(x)[1]


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = set()

    def forward(self, x):
        self.size = x.shape[0] + 1
        return x * 2


class Told(nn.Module):
    def forward(self, x):
        return x, float(x.sum()), "a"


class Quiet(nn.Module):
    def forward(self, x):
        return None


class Dropping(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


def sparse(x):
    return 1


def unstored(x):
    return 1


def run():
    net, x = Net().eval(), torch.ones(2, 3)
    net(x)
    net.block.penalty(x)
    Outer().eval()(x)
    Counting().eval()(x)
    Dropping().train()(x)
    sparse(torch.eye(3).to_sparse())
    unstored(torch.ones(2, device="meta"))
    lazy = Lazy()
    lazy(x)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.LazyLinear(3)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [
        ("", "", set()),
        ("return by * 2", "return by * 3", {"Block"}),
        ("self.seen.add_(1)", "self.seen.add_(2)", {"Counting"}),
        ("self.last + 1", "self.last + 2", {"Counting"}),
        ("        self.last = self.last + 1\n", "", {"Counting"}),
        ("self.size = x.shape[0] + 1", "self.size = x.shape[0]", {"Inner", "Outer"}),
        ("self.size = x.shape[0] + 1", "self.kept.add(1)", {"Inner", "Outer"}),
        ('float(x.sum()), "a"', 'float(x.sum()), "b"', {"Told"}),
    ],
)
def test_calls_of_models_are_compared_as_a_whole(held, one, other, wrong):
    pytest.importorskip("torch")
    reasons = held(MODELS, (one, other), "torch")
    names = ("Net", "Block", "Counting", "Dropping", "Outer", "Inner", "Told")
    assert {name for name in names if reasons[name]} == wrong, reasons
    assert "nothing finite" in reasons["Quiet"]
    assert "cannot be recorded" in reasons["sparse"]
    assert "cannot be recorded" in reasons["unstored"]
    assert "cannot be recorded" in reasons["Lazy"]


def test_figures_agree_within_the_precision_of_the_entry():
    adapter = SESSION.adapter
    x = np.linspace(-3.0, 5.0, 1000)
    one = figures(adapter, {"loss": 0.5, "parts": [x, (1, True)]})
    for other in (x.astype(np.float32).astype(np.float64), x + 1e-8):
        assert figures_agree(one, figures(adapter, {"loss": 0.5001, "parts": [other, (1, True)]})) is Agreement.SAME
    for loss, other in ((0.6, x), (0.5, x[::-1].copy()), (0.5, -x), (0.5, x[1:]), (0.5, np.where(x > 4, np.nan, x))):
        assert figures_agree(one, figures(adapter, {"loss": loss, "parts": [other, (1, True)]})) is Agreement.OTHER
    small = figures(adapter, x * 1e-8)
    assert figures_agree(small, figures(adapter, x * 1.0001e-8)) is Agreement.SAME, "small results are held relatively"
    assert figures_agree(small, figures(adapter, x * 2e-8)) is Agreement.SMALL
    assert figures_agree(small, figures(adapter, x[1:] * 1e-8)) is Agreement.OTHER


def test_calls_that_could_not_be_asked_are_counted():
    call = EntryCall("net:f", 1)
    evidence = Evidence(EntryTold([call], [], ["net:f"], {}), {"net": "net.py"}, [])
    evidence._note(call, "", unasked=1)
    proof = proof_of(Defined("net.py", 1, 2, "f", False), Ledger(), evidence.seen("net:f"), "")
    assert (proof.fact, proof.unasked) == (Fact.PROVEN, 1)
    assert "of 1 it is not known" in lines(Proven([proof], []))[-1]


def test_a_forced_conversion_that_is_refused_leaves_the_proof(tmp_path):
    source, out = tmp_path / "src", tmp_path / "out"
    source.mkdir()
    (source / "net.py").write_text("import torch\n")
    (out / "net.py").mkdir(parents=True)
    proof = out / "proof.json"
    proof.write_text('{"tolerance": 1e-8, "proofs": [], "lines": []}')
    words = ["convert", "code", str(source), str(out), "--force"]
    assert main(words) == 2, "a folder stands where a file shall be written"
    assert proof.exists()
    (out / "net.py").rmdir()
    assert main(words) == 0
    assert not proof.exists()


def test_a_script_of_the_source_has_its_work_guarded(tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    (source / "net.py").write_text("def run():\n    pass\n")
    head = "import sys\nfrom net import run\n\nsys.path.append('.')\n\n\ndef main():\n    run()\n\n\n"
    for text in (
        "main()\n",
        "run()\n",
        "x = main()\n",
        "for each in range(3):\n    print(each)\n",
        "try:\n    main()\nfinally:\n    pass\n",
    ):
        (source / "train.py").write_text(head + text)
        with pytest.raises(UsageError, match="does its work at its top level") as raised:
            entry_of("train.py", source)
        assert "train.py:11" in str(raised.value)
        assert "__main__" in str(raised.value)
    (tmp_path / "outside.py").write_text(head + "main()\n")
    assert entry_of(str(tmp_path / "outside.py"), source).kind == "script", "nothing imports it"
    (source / "train.py").write_text(head + "if __name__ == '__main__':\n    main()\n")
    assert entry_of("train.py", source).kind == "script"


# -- judgement ----------------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_recorded_is_reached_and_not_proven():
    calls = [
        EntryCall("net:f", 1, problem="it is given a Net"),
        EntryCall("net:Net.forward", 1, problem="it is given a Batch", object_=1),
        EntryCall("net:Meter.update", 1, problem="it is given a Net", object_=2),
    ]
    objects = [MadeObject(1, "net:Net", model=True, called=True), MadeObject(2, "net:Meter", called=True)]
    evidence = Evidence(EntryTold(calls, objects, ["net:f", "net:Net", "net:Meter"], {"net:g": "it is a generator"}), {"net": "net.py"}, [])
    seen = {name: evidence.seen(f"net:{name}") for name in ("f", "Net", "Meter", "g")}
    assert all(each.reason for each in seen.values())
    assert "it is given a Batch" in seen["Net"].reason
    assert evidence.seen("net:unused") is None
    evidence.fail({"net:f"}, 0, "the port fails")
    assert seen["f"].calls == 0, "a call that is not made again is not counted"


LARGEST = float(np.finfo(np.float64).max)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, 2.0, -LARGEST], [5.0, -7.0, -LARGEST]),
        ([1.0, 2.0, -1e9], [5.0, -7.0, -1e9]),
        ([1.0, -1e9, -1e9, -1e9], [5.0, -1e9, -1e9, -1e9]),
        ([1.0, 2.0, 1.0 - 1e9], [5.0, -7.0, 5.0 - 1e9]),
        ([1.0, 100.0, 1e4, 1e6, 1e9], [5.0, 100.0, 1e4, 1e6, 1e9]),
        ([1.0, np.inf], [2.0, np.inf]),
        ([1.0, np.nan], [1.0, 2.0]),
        ([LARGEST], [-LARGEST]),
        ([0.0, 0.0], [0.0, 1.0]),
        ([2j, 1e9], [3j, 1e9]),
    ],
)
def test_huge_elements_hide_no_error(one, other):
    assert values_apart(np.array(one), np.array(other)) > 100 * TOLERANCE


def test_whole_numbers_that_differ_are_not_near():
    assert values_apart(np.array([2**60, 1]), np.array([2**60 + 1, 1])) > TOLERANCE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, 1e-17, 0.0], [1.0, 3e-17, -1e-18]),
        ([1.0, 2.0, -LARGEST], [1.0 + 1e-15, 2.0, -LARGEST]),
        ([1e6 + 1e-9, 2e6], [1e6, 2e6]),
        ([1e300, 1e300], [1e300, 1e300 * (1 + 1e-15)]),
        ([1e-300, np.nan], [1e-300 * (1 + 1e-15), np.nan]),
        ([1e-17] * 9 + [1.0], [2e-17] * 9 + [1.0]),
    ],
)
def test_rounding_is_no_error(one, other):
    assert values_apart(np.array(one), np.array(other)) < 1e-14


def test_a_class_that_was_wrong_within_a_model_is_not_proven():
    evidence = Evidence(EntryTold(), {}, [])
    evidence.own["net:Block"], evidence.own["net:Other"] = Seen(calls=4), Seen(calls=4)
    evidence.inner["net:Block"] = Seen(calls=6, error=0.5, reason="blocks.0: its inputs are not the original's", wrong="blocks.5: apart")
    evidence.inner["net:Other"] = Seen(calls=6, reason="blocks.0: its inputs are not the original's")
    assert evidence.seen("net:Block").reason == "blocks.5: apart"
    assert evidence.seen("net:Other").reason == "", "that its inputs are others is another layer's doing"


def test_exit_codes_say_what_was_not_shown():
    proven, unproven, unreached = (Proof("net.py", 1, "f", fact, end=3) for fact in (Fact.PROVEN, Fact.UNPROVEN, Fact.UNREACHED))
    line = LineFact("net.py", 2, "torch.add", Fate.EQUAL, Fact.UNREACHED)
    assert code_of([proven], [], left=False) == 0
    assert code_of([proven], [], left=True) == 1
    assert code_of([proven, unproven, unreached], [], left=False) == 1
    assert code_of([proven, unreached], [], left=False) == 4
    assert code_of([proven], [line], left=False) == 4
    found = Proven([unreached, Proof("net.py", 5, "g", Fact.PROVEN, end=9)], [line])
    assert entry_proofs(found, SimpleNamespace(kind="function", target="net:f"), SimpleNamespace(is_dir=lambda: False)) == (
        found.proofs[1:],
        [],
    )
    assert entry_proofs(found, SimpleNamespace(kind="script", target="net.py"), None) == (found.proofs, found.lines)


# -- both frameworks ----------------------------------------------------------------------------------------------------------------

NET = """
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    width: int = 8


def scaled(x, by=2.0, *, shift=None):
    if shift is None:
        return torch.mul(x, by)
    return torch.add(torch.mul(x, by), shift)


def loss_of(x, y):
    return F.mse_loss(x, y).item()


def pairs(items):
    for each in items:
        yield torch.abs(each)


def depth(x, n):
    return x if n == 0 else depth(torch.tanh(x), n - 1)


def drawn(x):
    return x + torch.rand_like(x)


def of_model(net, x):
    return torch.argmax(net(x), -1)


def show(x):
    print(torch.std(x))


def unused(x):
    return torch.var(x)


class Block(nn.Module):
    def __init__(self, config, norm=nn.LayerNorm):
        super().__init__()
        self.norm = norm(config.width)
        self.fc = nn.Linear(config.width, config.width)

    def forward(self, x):
        if self.training:
            x = F.dropout(x, 0.5)
        return torch.add(x, F.gelu(self.fc(self.norm(x))))


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(4, config.width)
        self.blocks = nn.ModuleList(Block(config, nn.LayerNorm) for _ in range(2))

    def forward(self, x, scale=1.0):
        x = scaled(self.fc(x), by=scale)
        for each in self.blocks:
            x = each(x)
        return x


class Meter:
    def __init__(self):
        self.total = torch.zeros(())
        self.count = 0

    def update(self, value, n=1):
        self.total = torch.add(self.total, value * n)
        self.count += n


def run():
    torch.manual_seed(0)
    net = Net(Config(width=6)).eval()
    x = torch.randn(2, 4)
    y = net(x, scale=0.5)
    meter = Meter()
    meter.update(y.detach().mean(), 3)
    scaled(x, shift=1.0), loss_of(y, y + 1), list(pairs([x])), depth(x, 2), drawn(x), of_model(net, x), show(x)


if __name__ == "__main__":
    run()
"""


def facts_of(proven):
    return {each.name: each.fact for each in proven.proofs}


@pytest.mark.torch
@pytest.mark.paddle
def test_converted_code_is_held_against_its_original(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    source, out = tmp_path / "src", tmp_path / "out"
    source.mkdir()
    (source / "net.py").write_text(NET)
    code = main(["convert", "code", str(source), str(out), "--prove", "--entry", "net:run"])
    said = capsys.readouterr().out
    proof = json.loads((out / "proof.json").read_text())
    facts = {each["name"]: each["fact"] for each in proof["proofs"]}
    right = {"Config", "scaled", "loss_of", "depth", "Block", "Net", "Meter"}
    assert facts == {
        **dict.fromkeys(right, "proven"),
        **dict.fromkeys(("pairs", "drawn", "of_model", "show"), "reached but not proven"),
        **dict.fromkeys(("unused", "run"), "not reached"),
    }, said
    assert code == 1
    assert "its inputs cannot be recorded: it is given a Net" in said
    assert "it is a generator" in said
    assert "gives nothing back, or nothing finite, and changes nothing" in said
    lines = {each["name"]: each["fact"] for each in proof["lines"] if each["name"].endswith((".dropout", ".gelu"))}
    assert lines == {"torch.nn.functional.dropout": "not reached", "torch.nn.functional.gelu": "proven"}, "a branch that was not taken"
    written = sum(1 for each in json.loads((out / "ledger.json").read_text())["places"])
    assert len(proof["lines"]) == written, "a fact a line"

    port = out / "net.py"
    text = port.read_text()
    for right_text, wrong_text in (
        ("self.count += n", "self.count += 1"),
        ("depth(paddle.tanh(x), n - 1)", "depth(paddle.tanh(x * 1.0001), n - 1)"),
        ("range(2)", "range(1)"),
        ("def loss_of(x, y):", "def loss_of(x, y):\n    raise ValueError('\\x1b[2J no')"),
    ):
        assert right_text in text
        text = text.replace(right_text, wrong_text)
    port.write_text(text)
    made = Conversion(source, out, Ledger())
    found = prove_code(made.__class__(source, out, convert_code(source, tmp_path / "again")), entry_of("net.py", source))
    facts = facts_of(found)
    assert [name for name, fact in facts.items() if fact is Fact.PROVEN] == ["Config", "scaled"]
    reasons = {each.name: each.reason for each in found.proofs}
    assert "apart" in reasons["depth"]
    assert "the port raises ValueError" in reasons["loss_of"]
    assert "weights could not be carried over" in reasons["Net"]
    assert "other numbers" in reasons["Meter"]


@pytest.mark.torch
@pytest.mark.paddle
def test_a_project_is_an_entry_and_a_failing_one_is_told(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    net = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(3, width)

        def forward(self, x):
            return torch.relu(self.fc(x))

    def fails():
        torch.relu(torch.ones(2))
        raise KeyError("nothing")
    """
    (tmp_path / "net.py").write_text(textwrap.dedent(net))
    (tmp_path / "side.py").write_text("def build_model():\n    from net import Net\n\n    return Net(5)\n")
    side = '\nmodule = "side.py"\nroot = "."\nframework = '
    (tmp_path / "paralign.toml").write_text(f'[reference]{side}"torch"\n[candidate]{side}"paddle"\n[inputs]\nshape = [2, 3]\n')
    port = tmp_path / "port.py"
    assert main(["convert", "code", str(tmp_path / "net.py"), str(port), "--prove", "--entry", "net:fails"]) == 3
    assert "KeyError" in capsys.readouterr().err
    words = ["convert", "code", str(tmp_path / "net.py"), str(port), "--force", "--json", "--prove", "--entry", str(tmp_path)]
    assert main(words) == 4, "nothing is wrong, but a function was not reached"
    proof = json.loads(capsys.readouterr().out)["proof"]
    assert {each["name"]: each["fact"] for each in proof["proofs"]} == {"Net": "proven", "fails": "not reached"}
    assert (tmp_path / "port.py.proof.json").is_file()
