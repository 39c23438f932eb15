"""The corpus of planted faults does not rot: every edit applies, a few are checked whole."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults"
CHOSEN = {
    "llama/groups-tiled": "forward", "llama/norm-eps": "forward", "llama/norm-detached": "backward", "llama/no-clip": "update",
    "llama/grouped": "", "llama/written-silu": "", "llama/packed-gate": "",
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus():
    sys.path.append(str(FAULTS))
    try:
        import corpus

        yield corpus
    finally:
        sys.path.remove(str(FAULTS))
        sys.modules.pop("corpus")


def run(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(FAULTS.parents[1] / "src")}
    return subprocess.run([sys.executable, *arguments], cwd=FAULTS, capture_output=True, text=True, env=environment, check=False)


def test_every_edit_applies_to_running_text_and_knows_its_lines(corpus, tmp_path):
    seen = {"": 0}
    for program in corpus.programs():
        for plant in corpus.plants(program):
            target = corpus.plant_copy(plant, tmp_path)
            for path in target.glob("*.py"):
                ast.parse(path.read_text())
            assert bool(corpus.truth(plant, target)) == bool(plant.edits), plant.id
            seen[plant.stage] = seen.get(plant.stage, 0) + 1
    assert set(seen) == {"", *corpus.STAGES}
    assert seen.pop("") >= 45
    assert sum(seen.values()) >= 70


def test_an_edit_that_does_not_apply_is_told(corpus, tmp_path):
    plant = corpus.Plant("gone", "what", (corpus.Edit("no such text", ""),), program="resnet")
    with pytest.raises(ValueError, match="occurs 0 times"):
        corpus.plant_copy(plant, tmp_path)


@pytest.mark.parametrize(("before", "now", "lines"), [
    ("a b c", "a x c", {2}), ("a b c", "a c", {1, 2}), ("a b", "a b c d", {3, 4}), ("b", "a b", {1}), ("a b", "a", {1}),
])  # fmt: skip
def test_true_lines_are_those_that_changed(corpus, before, now, lines):
    assert corpus.changed(before.split(), now.split()) == lines


def test_a_statement_of_many_lines_is_one_place(corpus):
    assert corpus.statements("x = f(\n    1,\n)\nif x:\n    y = 2\n") == [(1, 3), (5, 5)]


def test_a_line_is_the_same_wherever_its_folder_is(corpus):
    sys.path.append(str(FAULTS))
    import judges

    truth = {"/tmp/one/llama_x/candidate.py:12"}
    assert judges.same_line("/elsewhere/llama_x/candidate.py:12", truth)
    assert judges.same_line("candidate.py:12", truth)
    assert not any(
        judges.same_line(s, truth) for s in ("/tmp/one/llama_x/candidate.py:1", "llama_y/candidate.py:12", "", None, "attention")
    )


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
def test_some_faults_are_flagged_and_harmless_variations_are_not():
    done = run("worker.py", "llama", *CHOSEN)
    rows = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert set(rows) == set(CHOSEN), done.stderr
    assert {name: row["paralign"]["flagged"] for name, row in rows.items()} == {name: bool(stage) for name, stage in CHOSEN.items()}
    assert not any(row["paralign"]["failed"] or row["reprod_log"]["failed"] for row in rows.values())


@pytest.mark.torch
@pytest.mark.paddle
@pytest.mark.slow
def test_a_program_is_what_it_says():
    done = run("-W", "ignore", "verify.py", "recurrent")
    assert done.returncode == 0, done.stdout
    assert "BAD" not in done.stdout
    assert len(done.stdout.splitlines()) > 20
