"""The condition that puts a parameter into the wrong group of an optimizer."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

from paralign.locate.provenance.settings.group_choice import Choice, of_choice
from paralign.locate.provenance.tracing_back import Sides
from paralign.locate.provenance.values.value_graph import ValueGraph
from paralign.worker.instrumentation.fresh_imports import rewritten
from paralign.worker.instrumentation.observed import Recorder
from paralign.worker.provenance.recording import lines_of

NAMES = {"embed.weight": 2, "head.weight": 2, "body.weight": 2, "norm.scale": 1, "head.bias": 1, "body.bias": 1}

REFERENCE = """
    STILL = ("bias", "scale")
    def run():
        decayed, still = [], []
        for name, dims in NAMES.items():
            (still if name.endswith(STILL) or name.startswith("embed") else decayed).append(name)
        return decayed, still
    """


@pytest.fixture
def record(tmp_path, monkeypatch):
    """The graph of ``run()`` of a program that is given ``NAMES``."""
    count = iter(range(100))

    def act(program):
        folder = tmp_path / f"side{next(count)}"
        folder.mkdir()
        text = f"NAMES = {NAMES!r}\n" + textwrap.dedent(program).lstrip("\n")
        (folder / "program.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        sys.modules.pop("program", None)
        importlib.invalidate_caches()
        recorder = Recorder()
        with rewritten({"run": importlib.import_module("program").run}, recorder) as functions:
            named = getattr(sys.modules["program"], "WATCHED", {})
            recorder.watched = {id(held): (held, name) for name, held in named.items()}
            before = len(recorder.events) - 1
            _, roots = recorder.run(functions["run"], {})
        roots["model"] = before
        roots |= {f"sight:{place}:{name}": number for place, (number, name) in enumerate(recorder.sightings)}
        sys.modules.pop("program", None)
        return ValueGraph(lines_of(recorder), recorder.numbers.array(), roots)

    return act


def named(record, program, wrong, joined, wanted):
    found = of_choice(Sides(record(REFERENCE), record(program)), Choice(wrong, joined, wanted))
    return None if found is None else int(found.source.rpartition(":")[2])


WEIGHTS, OTHERS = ["head.weight", "body.weight"], ["norm.scale", "head.bias", "body.bias"]

#: a predicate that forgets the embedding, in the ways that people write one; the line of the condition
FORGETFUL = {
    "a helper": (
        """
        def wants(name, dims):
            return dims >= 2
        def run():
            return [n for n, d in NAMES.items() if wants(n, d)], [n for n, d in NAMES.items() if not wants(n, d)]
        """,
        3,
    ),
    "a helper that two lines ask": (
        """
        def wants(name, dims):
            return dims >= 2 and name != "embed"
        def run():
            decayed = [n for n, d in NAMES.items() if wants(n, d)]
            return decayed, [n for n, d in NAMES.items() if not wants(n, d)]
        """,
        3,
    ),
    "a loop": (
        """
        def run():
            decayed, still = [], []
            for name, dims in NAMES.items():
                flat = dims < 2
                if flat:
                    still.append(name)
                else:
                    decayed.append(name)
            return decayed, still
        """,
        5,
    ),
    "a lambda": (
        """
        KEEP = lambda name: not name.endswith(("bias", "scale"))
        def run():
            return [n for n in NAMES if KEEP(n)], [n for n in NAMES if not KEEP(n)]
        """,
        2,
    ),
}


@pytest.mark.parametrize("case", FORGETFUL)
def test_a_condition_that_forgets_a_parameter(record, case):
    program, line = FORGETFUL[case]
    assert named(record, program, ["embed.weight"], WEIGHTS, OTHERS) == line


def test_a_list_of_names_that_is_short_of_one(record):
    assert named(record, REFERENCE.replace('("bias", "scale")', '("bias",)'), ["norm.scale"], WEIGHTS, ["head.bias", "embed.weight"]) == 2


def test_names_within_a_part_of_the_model(record):
    program = FORGETFUL["a helper"][0]
    outer = [[f"model.{name}" for name in part] for part in (["embed.weight"], WEIGHTS, OTHERS)]
    assert named(record, program, *outer) == 3


def test_no_condition_parts_them(record):
    by_table = """
        TABLE = {"decayed": ["embed.weight", "head.weight", "body.weight"], "still": ["norm.scale", "head.bias", "body.bias"]}
        def run():
            return TABLE["decayed"], TABLE["still"]
        """
    assert named(record, by_table, ["embed.weight"], WEIGHTS, OTHERS) is None
    assert named(record, FORGETFUL["a helper"][0], ["norm.scale"], WEIGHTS, ["head.bias"]) is None, "the condition is right of it"
    assert named(record, FORGETFUL["a helper"][0], ["unknown"], WEIGHTS, OTHERS) is None


def test_a_helper_that_is_right_and_asked_the_wrong_way_round(record):
    program = """
        def wants(name, dims):
            return dims >= 2 and not name.startswith("embed")
        def run():
            decayed = [n for n, d in NAMES.items() if not wants(n, d)]
            return decayed, [n for n, d in NAMES.items() if wants(n, d)]
        """
    assert named(record, program, OTHERS, [], []) is None


UNNAMED = """
    class Tensor:
        def __init__(self, dims):
            self.shape = (3,) * dims
    class Layer:
        def __init__(self, **held):
            self.held = held
    LAYERS = {name: Layer(**{n.split(".")[1]: Tensor(d) for n, d in NAMES.items() if n.startswith(name)}) for name in ("embed", "head", "body", "norm")}
    TENSORS = {f"{name}.{end}": each for name, layer in LAYERS.items() for end, each in layer.held.items()}
    WATCHED = {**{f"{name}.": layer for name, layer in LAYERS.items()}, **TENSORS}
    """

#: conditions that ask the tensors themselves, or their layers, for no names; the wrong parameters; the line
NAMELESS = {
    "a condition that is true of all": (
        """
        def run():
            groups = {}
            for p in TENSORS.values():
                groups.setdefault(len(p.shape) > 0, []).append(p)
            return groups
        """,
        (OTHERS, ["embed.weight", *WEIGHTS], []),
        4,
    ),
    "a condition of layers": (
        """
        def run():
            decayed = []
            for layer in LAYERS.values():
                if len(layer.held) < 3 and "weight" in layer.held:
                    decayed += layer.held.values()
            return decayed
        """,
        (["head.bias", "body.bias", "embed.weight"], WEIGHTS, ["norm.scale"]),
        4,
    ),
    "what the set holds that is looked into": (
        """
        def slow():
            return [p for layer in (LAYERS["head"], LAYERS["body"]) for p in layer.held.values() if len(p.shape) > 1]
        def run():
            found = {id(p) for p in slow()}
            return [p for p in TENSORS.values() if id(p) in found]
        """,
        (["embed.weight"], OTHERS, WEIGHTS),
        4,
    ),
    "what a helper hands on to the set": (
        """
        from itertools import chain
        def slow():
            return list(chain(LAYERS["head"].held.values(), LAYERS["body"].held.values()))
        def run():
            found = {id(p) for p in slow()}
            return [p for p in TENSORS.values() if id(p) in found]
        """,
        (["embed.weight"], ["norm.scale"], ["head.weight", "body.weight"]),
        3,
    ),
    "a helper that is handed the tensor": (
        """
        def is_flat(tensor):
            return len(tensor.shape) < 2
        def run():
            return [p for p in TENSORS.values() if is_flat(p)]
        """,
        (["embed.weight"], WEIGHTS, OTHERS),
        2,
    ),
}


@pytest.mark.parametrize("case", NAMELESS)
def test_a_condition_that_is_asked_without_names(record, case):
    program, parts, line = NAMELESS[case]
    before = textwrap.dedent(UNNAMED)
    found = of_choice(Sides(record(REFERENCE), record(before + textwrap.dedent(program))), Choice(*parts))
    assert found is not None
    assert int(found.source.rpartition(":")[2]) == 1 + before.count("\n") + line


def test_two_conditions_that_are_true_of_all_tell_nothing(record):
    program = """
        def run():
            return [p for p in TENSORS.values() if len(p.shape) > 0 and len(p.shape) < 9]
        """
    both = textwrap.dedent(UNNAMED) + textwrap.dedent(program)
    assert of_choice(Sides(record(REFERENCE), record(both)), Choice(OTHERS, WEIGHTS, [])) is None


def test_two_conditions_of_one_kind_on_a_line_are_two(record):
    program = """
    def run():
        heads, flats, rest = [], [], []
        for name, dims in NAMES.items():
            part, = [name.split(".")[0]]
            where = heads if part == "head" else flats if dims == 1 else rest  # line: choice
            where.append(name)
        return heads, flats, rest
    """
    choice = Choice(["head.bias"], ["head.weight"], ["norm.scale", "body.bias"], list(NAMES))
    found = of_choice(Sides(record(REFERENCE), record(program)), choice)
    text = ("NAMES\n" + textwrap.dedent(program).lstrip("\n")).split("\n")
    assert "# line: choice" in text[int(found.source.rpartition(":")[2]) - 1]


def test_what_is_said_of_other_parameters_is_not_said_of_the_last_one_known(record):
    program = """
    def run():
        decayed, still = [], []
        for name, dims in NAMES.items():
            (decayed if name.endswith("weight") else still).append(name)  # line: choice
        return decayed, still
    """
    choice = Choice(["embed.weight", "body.weight"], ["head.weight"], ["norm.scale"], list(NAMES))
    found = of_choice(Sides(record(REFERENCE), record(program)), choice)
    text = ("NAMES\n" + textwrap.dedent(program).lstrip("\n")).split("\n")
    assert "# line: choice" in text[int(found.source.rpartition(":")[2]) - 1]
