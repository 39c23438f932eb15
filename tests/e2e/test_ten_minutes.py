"""The page of ten minutes: its files, commands and what it shows of their output, in their order; the Chinese page has the same blocks."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("ten-minutes.md", "ten-minutes.zh.md")}
BLOCK = re.compile(r"(?:`([\w./]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    return BLOCK.findall(PAGES[page])


def lacking(shown, printed):
    """The lines of a block that were not printed, or not in this order; what a line leaves out at its end does not count."""
    rest = iter(printed.splitlines())
    return [line for line in shown.splitlines() if line != "…" and not any(each.startswith(line) for each in rest)]


def test_both_pages_have_the_same_blocks():
    assert blocks("ten-minutes.md") == blocks("ten-minutes.zh.md")
    assert len(blocks("ten-minutes.md")) == 13


def test_a_line_that_was_not_printed_would_be_seen():
    assert lacking("a\n…\nc\n", "a b\nb\nc") == []
    assert lacking("a\nd\n", "a\nb") == ["d"]
    assert lacking("b\na\n", "a\nb") == ["a"]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.paddle
def test_every_block_of_the_page_does_what_it_shows(tmp_path, run):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    extras = (ROOT / "pyproject.toml").read_text()
    for name, kind, body in blocks("ten-minutes.md"):
        if name:
            (tmp_path / name).write_text(body)
        elif kind == "bash":
            install = re.findall(r"^pip install 'paralign\[(.*)\]'$", body, re.MULTILINE)
            assert [extra for line in install for extra in line.split(",") if f"\n{extra} = [" not in extras] == []
            commands = "\n".join(line for line in body.splitlines() if not line.startswith("pip "))
            assert subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=False, timeout=60).returncode == 0
        else:
            assert kind == "console"
            command, _, shown = body.removeprefix("$ paralign ").partition("\n")
            done = run(*shlex.split(command), cwd=tmp_path, timeout=300)
            assert lacking(shown, done.out) == [], done.out + done.err
    assert (tmp_path / "port" / "result" / "report.html").is_file()
