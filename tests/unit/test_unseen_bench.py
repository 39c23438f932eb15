"""The benchmark of unseen programs counts rightly, and every edit applies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "unseen"


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(FOLDER))
    try:
        import run

        yield run
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("run", None)


def test_every_edit_applies_and_its_line_is_there(bench):
    found = bench.programs([], [])
    assert len(found) >= 12
    for program in found:
        for fault in bench.faults(program):
            text = (program / fault["file"]).read_text(encoding="utf-8")
            assert text.count(fault["old"]) == 1, fault["id"]
            if fault["kind"] != bench.HARMLESS:
                assert 1 <= fault["line"] <= len(text.replace(fault["old"], fault["new"]).splitlines()), fault["id"]


@pytest.mark.parametrize(("named", "lines"), [("x/net.py:12", 0), ("net.py:10", 2), ("net.py:20", 8), ("other.py:12", None), (None, None)])
def test_the_distance_to_the_nearest_true_line(bench, named, lines):
    assert bench.distance(named, ["net.py:12", "sub/other2.py:1"]) == lines


def test_counts(bench):
    rows = [
        {"id": "a/x/port", "kind": "port", "code": 0},
        {"id": "a/y/port", "kind": "port", "code": 1},
        {"id": "a/x/1", "kind": "axis", "code": 1, "distance": 0, "confirmed": True},
        {"id": "a/x/2", "kind": "axis", "code": 1, "distance": 7, "confirmed": True},
        {"id": "a/x/3", "kind": "axis", "code": 0, "distance": None, "confirmed": False},
        {"id": "a/x/4", "kind": "harmless", "code": 4},
    ]
    assert bench.counts(rows) == {
        "ports": 2, "aligned": 1, "faults": 3, "flagged": 2, "first": 1, "near": 0, "misleading": 1, "harmless": 1, "alarms": 1,
    }  # fmt: skip
    assert "| a | 1 of 2 | 2 of 3 | 1 | 0 | 1 | 1 of 1 |" in bench.table(rows)


@pytest.mark.parametrize(
    ("name", "one", "other", "same"),
    [
        ("a.py", b"x = 1 # one", b"x =  1", True),
        ("a.py", b"x = 1", b"x = 2", False),
        ("a.json", b'{"x": 1e-3}', b'{ "x": 0.001 }', True),
        ("a.json", b'{"x": 1}', b'{"x": 2}', False),
        ("a.ini", b"x = 1\r\n", b"x=1\n", True),
        ("a.ini", b"x = 1", b"x = 2", False),
    ],
)
def test_what_a_repaired_file_says(bench, name, one, other, same):
    assert (bench.meaning(Path(name), one) == bench.meaning(Path(name), other)) == same
