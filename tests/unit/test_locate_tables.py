"""Tables that a constructor makes of numbers alone, for more places than are used, and plain values under further names."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.capture.digest import moments
from paralign.locate.lines import tables
from paralign.locate.source.statements import alias_line
from paralign.model import Manifest

sys.path.insert(0, str(Path(__file__).parent))
from minilanguage import Laboratory, drawn, line_in
from minilanguage import named as lines

USED, MADE, WIDTH = 6, 40, 8

line_of = partial(line_in, __file__)


def _capture(folder, steps, others=()):
    """Steps as ``name: (array, line, numbers of what it was made of)``."""
    ids = []
    with CaptureWriter(folder, Manifest()) as writer:
        for number, (name, (array, line, made_of)) in enumerate(steps.items()):
            fields = {"op": name, "source": f"port.py:{line}", "inputs": tuple(ids[n] for n in made_of), "digest": moments(array)}
            ids.append(writer.add(f"step_{number}", array, role="sample", **fields).id)
        for number, array in enumerate(others):
            writer.add(f"value_{number}", array, role="sample")
    return Capture.open(folder)


def _reference(folder):
    rates = 100.0 ** -(np.arange(0, WIDTH, 2) / WIDTH)
    angles = np.outer(np.arange(USED), rates)
    return _capture(folder, {}, [np.arange(USED), rates, angles, np.cos(angles)[None], np.sin(angles)[None]])


def _port(folder, rates):
    """Its tables; the digest of what its operations take."""
    places = np.arange(MADE, dtype=float)
    angles = np.outer(places, rates)
    table = np.cos(angles)[None, :, None]
    steps = {"rates": (rates, 3, ()), "places": (places, 5, ()), "angles": (angles, 6, (0, 1)), "table": (table, 7, (2,))}
    return _capture(folder, steps), moments(table)


def test_of_a_longer_table_the_line_that_first_parts_is_named(tmp_path):
    port, wanted = _port(tmp_path / "port", 100.0 ** -(np.arange(0, WIDTH, 2) * WIDTH))
    assert tables.culprit(_reference(tmp_path / "reference"), port, [wanted], certain=False) == "port.py:3"


def test_a_longer_table_that_begins_as_the_references_is_right(tmp_path):
    port, wanted = _port(tmp_path / "port", 100.0 ** -(np.arange(0, WIDTH, 2) / WIDTH))
    assert tables.culprit(_reference(tmp_path / "reference"), port, [wanted]) is None


def test_tables_one_below_the_other_are_not_right_because_the_first_is(tmp_path):
    levels = [np.random.default_rng(level).standard_normal((rows, 4)) for level, rows in enumerate((16, 6))]
    wrong = levels[1] * [1.0, 1.0, 1.2, 1.2]
    both = np.concatenate([levels[0], wrong])
    reference = _capture(tmp_path / "reference", {}, levels)
    port = _capture(tmp_path / "port", {"first": (levels[0], 3, ()), "second": (wrong, 4, ()), "both": (both, 5, (0, 1))})
    assert tables.culprit(reference, port, [moments(both)]) == "port.py:4"
    right = np.concatenate(levels)
    port = _capture(tmp_path / "right", {"second": (levels[1], 4, ()), "both": (right, 5, (0,))})
    assert tables.culprit(reference, port, [moments(right)]) is None


def test_half_of_the_columns_does_not_make_a_table_right(tmp_path):
    angles = np.outer(np.arange(USED), 100.0 ** -(np.arange(0, WIDTH, 2) / WIDTH))
    whole = np.zeros((USED, WIDTH))
    whole[:, ::2], whole[:, 1::2] = np.sin(angles), np.cos(angles)
    reference = _capture(tmp_path / "reference", {}, [np.sin(angles), whole])
    halves = np.concatenate([np.sin(angles), np.cos(angles)], 1)
    port = _capture(tmp_path / "port", {"table": (halves, 4, ())})
    assert tables.culprit(reference, port, [moments(halves)], certain=False) == "port.py:4"


def test_a_table_of_another_kind_is_not_accused_without_evidence(tmp_path):
    port = _capture(tmp_path / "port", {"table": (drawn(1, 3, 5), 3, ())})
    assert tables.culprit(_reference(tmp_path / "reference"), port, [moments(drawn(1, 3, 5))], certain=False) is None


NAMES = """
def body(ids, other):
    more = other
    ones = ids * 0
    places = ones
    places += 0
    places = places.astype("int64")
    return table(places, more)
"""


def test_a_further_name_is_found_through_what_is_made_of_itself(tmp_path):
    path = tmp_path / "code.py"
    path.write_text(NAMES, encoding="utf-8")
    assert alias_line(f"{path}:8") == f"{path}:3"
    assert alias_line(f"{path}:8", f"{path}:4") == f"{path}:5"
    assert alias_line(f"{path}:8", f"{path}:7") is None


def rows(m, places):
    table = m.parameter("table")
    return m.operation("embedding", lambda t, i: t[i.astype(int)], table, places)


@pytest.mark.parametrize("wrong", [True, False])
def test_a_plain_index_is_told_where_it_got_its_name(tmp_path, wrong):
    def reference(m):
        places = m.operation("arange", lambda: np.arange(24).reshape(2, 12))
        return m.tanh(rows(m, m.operation("slice", lambda a: a[:, :9], places)))

    def candidate(m):
        ones = m.operation("ones", lambda: np.ones((2, 9), int))
        places = m.operation("remainder", lambda a: a.cumsum(1) - 1 + [[0], [12]], ones)
        if wrong:
            places = ones  # line: named
        return m.tanh(rows(m, places))

    found = lines(Laboratory(tmp_path, reference, candidate, {"x": drawn(1, 3)}, {"table": drawn(2, 24, 5)}).divergences())
    assert found == ([line_of("named")] if wrong else [])


def test_of_a_constant_index_the_line_that_made_it_is_named_not_one_that_cuts_it(tmp_path):
    def program(fill):
        def run(m):
            boxes = m.operation("full", lambda: np.full((6, 4), fill))  # line: filled
            return m.tanh(rows(m, m.operation("slice", lambda a: a[:, 2], boxes)))

        return run

    found = Laboratory(tmp_path, program(0), program(1), {"x": drawn(1, 3)}, {"table": drawn(2, 24, 5)}).divergences()
    assert lines(found) == [line_of("filled")]


def test_a_mask_the_other_way_round_is_no_fault_beside_one(tmp_path):
    places = np.arange(24)

    def attended(m, scores, mask, *, keeps):
        kept = m.operation("where", lambda c, s: np.where(c == keeps, s, -1e9), mask, scores)
        return m.matmul(m.softmax(kept), m.parameter("table"))

    def reference(m):
        mask = m.operation("gt", lambda a: a[None, :] > a[:, None], m.constant(places))
        mask = m.operation("logical_or", lambda a: np.stack([a, a]) | False, mask)  # nothing is padding
        scores = m.operation("baddbmm", lambda a: a @ a.T * 0.25, m.parameter("table"))
        return attended(m, scores, mask, keeps=False)

    def candidate(m):
        mask = m.operation("ge", lambda a: a[:, None] >= a[None, :], m.constant(places))  # line: turned
        mask = m.operation("logical_and", lambda a: np.stack([a, a]) & True, mask)
        product = m.operation("outer", lambda a: a @ a.T, m.parameter("table"))
        return attended(m, m.scale(product, 4.0), mask, keeps=True)

    found = Laboratory(tmp_path, reference, candidate, {"x": drawn(1, 3)}, {"table": drawn(2, 24, 5)}).divergences()
    assert [line for line in lines(found) if line == line_of("turned")] == [] != found
