"""The condition that puts a parameter into the wrong group of an optimizer."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

from paralign.locate.provenance.group_choice import Choice, of_choice
from paralign.locate.provenance.tracing_back import Sides
from paralign.locate.provenance.value_graph import ValueGraph
from paralign.worker.provenance.fresh_imports import rewritten
from paralign.worker.provenance.observed import Recorder
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
            _, roots = recorder.run(functions["run"], {})
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
