"""Mistakes drawn at random: what may be changed, and which lines are then the true ones."""

from __future__ import annotations

import ast
import itertools
import json
import random
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "faults"

PORT = """\
import paddle
from paddle.nn import functional as F

WIDTH = 4


class Net:
    def __init__(self, deep):
        self.scale = WIDTH**-0.5
        self.deep = deep == 2

    def forward(self, x, y):
        x = F.relu(x * self.scale)
        if self.deep:
            x = x + y
        z = paddle.mean(x, axis=1)
        return z
"""


@pytest.fixture
def mutants(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FAULTS))
    import corpus
    import mutants

    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "candidate.py").write_text(PORT, encoding="utf-8")
    monkeypatch.setattr(corpus, "PROGRAMS", tmp_path)
    yield mutants
    for name in ("corpus", "mutants", "mutate"):
        sys.modules.pop(name, None)


def test_every_mutant_is_another_program_and_a_seed_gives_the_same_ones(mutants):
    first, again, other = (list(itertools.islice(mutants.mutants("net", seed), 40)) for seed in (1, 1, 2))
    assert [p.what for p in first] == [p.what for p in again]
    assert [p.what for p in first] != [p.what for p in other]
    known = ast.dump(ast.parse(PORT))
    for plant in first:
        assert ast.dump(ast.parse(plant.edits[0].new)) != known
    assert len({p.name for p in first}) == len(first)


def test_kinds_take_turns(mutants):
    kinds = [p.what.split(":")[0] for p in itertools.islice(mutants.mutants("net", 3), 10)]
    assert len(set(kinds)) > 6


@pytest.mark.parametrize(
    ("text", "line", "true"),
    [
        ("self.scale = WIDTH**-0.5", 9, {13}),  # kept: where it is used
        ("self.deep = deep == 2", 10, {14, 15, 16}),  # decides
        ("WIDTH = 4", 4, {9}),
        ("return z", 17, {16, 18}),  # nothing is done in it: what is around
        ("z = paddle.mean(x, axis=1)", 16, set()),
    ],
)
def test_the_true_lines_are_where_the_edit_acts(mutants, text, line, true):
    assert PORT.splitlines()[line - 1].strip() == text
    assert mutants._true_lines(ast.parse(PORT), line) - {line} == true


def test_a_line_is_left_out_whole_and_two_lines_are_exchanged(mutants):
    tree = ast.parse(PORT)
    forward = tree.body[-1].body[-1]
    assert mutants._edited(PORT, forward.body[-2], "") == PORT.replace("        z = paddle.mean(x, axis=1)\n", "")
    init = tree.body[-1].body[0]
    turned = mutants._edited(PORT, init.body[1], "\0" + "1").splitlines()
    assert [row.strip().split(" ")[0] for row in turned[8:10]] == ["self.deep", "self.scale"]


def test_what_is_no_python_any_more_is_no_mutant(mutants):
    tree = ast.parse("def f(x):\n    return x\n")
    assert mutants._edited("def f(x):\n    return x\n", tree.body[0].body[0], "") is None


def test_edits_may_be_of_some_lines_only(mutants):
    found = list(mutants.edits(PORT, random.Random(0), {13}))
    assert len(found) > 3
    for _, text, _ in found:
        pairs = enumerate(zip(PORT.splitlines(), text.splitlines(), strict=False), 1)
        assert next(number for number, (one, other) in pairs if one != other) in (12, 13)


SCRIPT = """\
import json, sys
name = sys.argv[2]
if name == "broken":
    sys.exit(3)
print(json.dumps({"id": name, "what": "number: 1 -> 2", "paralign": {"exact": True}}))
"""


def test_what_was_judged_is_kept_though_one_of_the_processes_fails(mutants, tmp_path):
    import mutate

    script, kept = tmp_path / "script.py", tmp_path / "rows.json"
    script.write_text(SCRIPT, encoding="utf-8")
    answers = mutate.asked(str(script), ["one", "broken", "another"], 0, 1, 2)
    assert [row["id"] for row in answers[0]] == ["another", "one"]
    with pytest.raises(SystemExit, match="the mutants of broken could not be judged"):
        mutate.settled(answers, {str(kept): json.dumps, "": json.dumps})
    assert json.loads(kept.read_text()) == answers[0]
    mutate.settled(mutate.asked(str(script), ["one"], 0, 1, 1), {str(kept): json.dumps})
    assert [row["id"] for row in json.loads(kept.read_text())] == ["one"]
