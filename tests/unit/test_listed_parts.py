"""Lists of parts that are written out on another line than the call that joins them."""

from __future__ import annotations

import textwrap

import pytest

from paralign.locate.source.statements import listed_line

PROGRAM = """
    def joined(join, a, b, c):
        first = [a, b]  # FIRST
        ends = (
            c,
            a * 2,
        )
        whole = join(ends, axis=-1)  # BY NAME
        again = join([b, *first], axis=0)  # WRITTEN
        shape = [1, 2]
        both = join(first, shape)  # WITH A SHAPE
        return join(first, ends)  # TWO
"""


def at(tmp_path, mark):
    path = tmp_path / "program.py"
    text = textwrap.dedent(PROGRAM).lstrip("\n")
    path.write_text(text, encoding="utf-8")
    number = next(n for n, line in enumerate(text.splitlines(), 1) if mark in line)
    found = listed_line(f"{path}:{number}")
    return None if found is None else int(found.rpartition(":")[2])


@pytest.mark.parametrize(("mark", "line"), [("BY NAME", 3), ("WRITTEN", None), ("WITH A SHAPE", 2), ("TWO", None)])
def test_the_line_that_writes_out_a_list_of_parts(tmp_path, mark, line):
    assert at(tmp_path, mark) == line
