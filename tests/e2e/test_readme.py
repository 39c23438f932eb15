"""What the README shows is what its commands print: a project from nothing, a mistake in it, and a check from Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "README.zh.md"]

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


def blocks(page, language):
    text = (ROOT / page).read_text(encoding="utf-8")
    return [found[1] for found in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if found[0] == language]


def ran(words, folder):
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False)


def command(line, folder):
    return ran([sys.executable, "-m", *shlex.split(line, comments=True)], folder)


def shape(table):
    """A table of results without what rounding decides: stages and verdicts."""
    return [line.split()[:2] for line in table.splitlines() if line[:1].isalpha()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder in which the first commands of the page were run, and what the last of them printed."""
    folder = tmp_path_factory.mktemp("readme")
    first = next(block for block in blocks("README.md", "bash") if block.startswith("paralign init"))
    done = [command(line, folder) for line in first.splitlines()]
    assert [each.returncode for each in done] == [0, 0], done[-1].stdout + done[-1].stderr
    return folder, done[-1].stdout


def test_the_commands_are_the_same_in_both_languages():
    bare = [[re.sub(r"\s*#.*|<.*?>", "", block) for block in blocks(page, "bash")] for page in PAGES]
    assert bare[0] == bare[1]


@pytest.mark.parametrize("page", PAGES)
def test_the_table_is_as_shown(made, page):
    shown = next(block for block in blocks(page, "") if block.startswith("stage "))
    rows = shape(shown)
    printed = made[1][made[1].index("\nstage ") + 1 :]
    assert shape(printed)[: len(rows)] == rows


def test_the_mistake_is_told_as_shown(made):
    folder, _ = made
    port = folder / "port" / "candidate.py"
    right = port.read_text()
    port.write_text(right.replace(", exclusive=False)", ")", 1))
    told = command("paralign check port weights forward", folder)
    report = command("paralign report port/result --format junit", folder)
    port.write_text(right)
    assert (told.returncode, report.returncode) == (1, 0)
    assert (folder / "port" / "result" / "junit.xml").is_file()
    shown = [block for block in blocks("README.md", "") if block.startswith("forward diverged")]
    assert len(shown) == 2
    for line in shown[0].splitlines():
        if not line.startswith("  error"):  # its numbers are of rounding
            assert line in told.stdout.replace("port/", ""), told.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_example_in_python_prints_its_remark(tmp_path, page):
    text = next(block for block in blocks(page, "python") if "result = check(" in block)
    (tmp_path / "example.py").write_text(text)
    done = ran([sys.executable, "example.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == re.search(r"print\(.*\)\s+# (.*)", text)[1]
