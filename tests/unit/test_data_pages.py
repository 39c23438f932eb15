"""The pages on data: their commands are commands of paralign, their settings are read, and both languages say the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from paralign.cli import parser
from paralign.run.project import read

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("data.md", "data.zh.md")


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def lines(text):
    return [line.partition("#")[0].strip() for line in text.splitlines() if line.partition("#")[0].strip()]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_are_commands(page):
    found = [line for block in blocks(page, "sh") for line in lines(block)]
    assert len(found) == 4
    for line in found:
        assert parser().parse_args(shlex.split(line)[1:]).verb == "sample"


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_of_the_page_are_read(page, project):
    found = blocks(page, "toml")
    assert found
    for block in found:
        plain = "\n".join(lines(block))
        path = project.folder / "paralign.toml"
        before = path.read_text()
        path.write_text(f"{before}\n{plain}\n")
        read(project.folder)
        path.write_text(before)


def test_both_languages_have_the_same_parts():
    shapes = [
        [len(re.findall(pattern, (DOCS / page).read_text(), re.MULTILINE)) for pattern in (r"^#+ ", r"^```", r"^\|")] for page in PAGES
    ]
    assert shapes[0] == shapes[1]
