"""Projects whose two programs are written to a folder, where both lines of a divergence can be asked for."""

from __future__ import annotations

import textwrap

from paralign.api import check_project

SIDES = """
    out = "result"
    [reference]
    module = "reference.py"
    framework = "torch"
    [candidate]
    module = "candidate.py"
    framework = "paddle"
"""


def plain(text):
    """A text without the indentation that it has in a test."""
    return textwrap.dedent(text).lstrip("\n")


def checked(folder, reference, candidate, stage, more=""):
    """The result of a stage, with the weights before it; ``more`` are further tables of the project file."""
    settings = f'stages = ["weights", "{stage}"]\n{plain(SIDES)}{plain(more)}'
    for name, text in {"reference.py": plain(reference), "candidate.py": plain(candidate), "paralign.toml": settings}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return check_project(folder)[0][stage]


def line_of(text, mark):
    """The line of a text that has a mark."""
    return next(number for number, line in enumerate(plain(text).splitlines(), 1) if mark in line)
