"""The statement between the line that made a value and the one that takes it."""

from __future__ import annotations

import pytest

from paralign.locate.source.handed_on import between

PROGRAM = """
def once(x, carried):
    y = x if carried is None else x + carried[0]  # TAKES
    return head(y)  # MAKES

def forward(x):
    carried = None
    for _ in range(3):
        z, scores = once(x, carried)  # CALL
        carried = [z, scores]  # BETWEEN
    return scores

def direct(x):
    y = head(x)  # MADE
    w = y ** 2  # TAKEN
    return w * y

def unrelated(x):
    y = head(x)  # MADE2
    kept = [y]
    kept = [kept, y]
    return tail(kept)  # TAKEN2
"""


@pytest.fixture
def line(tmp_path):
    file = tmp_path / "port.py"
    file.write_text(PROGRAM)
    lines = PROGRAM.splitlines()
    return lambda mark: f"{file}:{next(n for n, text in enumerate(lines, 1) if text.endswith('# ' + mark))}"


def test_what_one_pass_hands_to_the_next(line):
    outer = ["main.py:9"]
    found = between([line("MAKES"), line("CALL"), *outer], [line("TAKES"), line("CALL"), *outer])
    assert found == (line("BETWEEN"), *outer)
    assert between([line("MAKES"), line("CALL")], [line("TAKES"), line("CALL")]) == (line("BETWEEN"),)


def test_a_value_that_is_taken_as_it_is_was_handed_on_by_nothing(line):
    assert between([line("MADE")], [line("TAKEN")]) == ()


def test_several_statements_tell_nothing(line):
    assert between([line("MADE2")], [line("TAKEN2")]) == ()


def test_lines_of_other_functions_and_files_have_nothing_between(line, tmp_path):
    assert between([line("MADE")], [line("TAKEN2")]) == ()
    assert between([line("MADE")], ["elsewhere.py:3"]) == ()
    assert between([f"{tmp_path / 'absent.py'}:1"], [f"{tmp_path / 'absent.py'}:2"]) == ()
    assert between([], [line("TAKEN")]) == between([line("MADE")], []) == ()
