"""Every fenced block of README and docs: it parses, its commands are commands, and a test executes its page; what is not is listed."""

from __future__ import annotations

import ast
import json
import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomllib

from paralign import cli
from paralign.commands.grammar import commands_of, inner_parsers

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("bash", "sh", "console")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks_of(page):
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(page.name, text.count("\n", 0, each.start()) + 1, each[1], each[2]) for each in found]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of(*languages):
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


def test_there_are_as_many_blocks_as_fences():
    fences = sum(len(re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)) for page in PAGES)
    assert 2 * len(BLOCKS) == fences
    assert len(BLOCKS) > 200


@pytest.mark.parametrize("block", of("python"))
def test_python_parses(block):
    ast.parse(textwrap.dedent(block.text.replace(", …)", ")")))  # the rest of the arguments


@pytest.mark.parametrize("block", of("toml"))
def test_toml_parses(block):
    tomllib.loads(block.text)


@pytest.mark.parametrize("block", of("json"))
def test_json_parses(block):
    json.loads(block.text)


def commands(block):
    """The calls of ``paralign`` in a block of the shell, continued lines joined."""
    text = block.text.replace("\\\n", " ")
    lines = [line.removeprefix("$ ").strip() for line in text.splitlines() if block.language != "console" or line.startswith("$ ")]
    for line in lines:
        for part in re.split(r"&&|\|\||;", line.partition("  #")[0]):
            words = part.strip()
            if words.startswith("paralign "):
                yield words


def unknown_words(command):
    """The options of a command line that the command does not have, or the command, if it is none."""
    words = [word for word in shlex.split(command, comments=True)[1:] if word not in (">", "2>", "<")]
    place = cli.parser()
    while words and (verbs := commands_of(place)) is not None and not words[0].startswith("-"):
        verb = words.pop(0)
        if verb not in verbs:
            return [verb]
        place = verbs[verb]
    known = {option for parser in (place, *inner_parsers(place)) for option in parser._option_string_actions}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("block", of(*SHELL))
def test_commands_and_their_options_are_there(block):
    assert [(command, words) for command in commands(block) if (words := unknown_words(command))] == []


def test_an_unknown_option_would_be_seen():
    assert unknown_words("paralign check port --frsh") == ["--frsh"]
    assert unknown_words("paralign chek port") == ["chek"]
    assert unknown_words("paralign weights diff a b --rulez") == ["--rulez"]


def targets():
    return set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_targets_of_make_are_there():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"`make ([a-z][\w-]*)", text)) - targets() == set()


RUNNABLE = [block for block in BLOCKS if block.language in (*SHELL, "python", "toml")]


def code(block):
    """The lines of a block without remarks, which a translated page has in its own language."""
    lines = [re.sub(r"\s*#.*$", "", line).rstrip() for line in block.text.splitlines()]
    return [line for line in lines if line]


def opened():
    """The pages that a test of the suite names; what it takes from them, it runs. Other folders have a README too."""
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)}
    texts = [text if name == "test_readme.py" else text.replace("README", "") for name, text in tests.items()]
    return {page.name for page in PAGES if any(page.name in text for text in texts)}


def not_executed():
    """Page -> how many of its blocks no test opens; a translated block counts with the English one that has the same code."""
    known = opened()
    covered = [code(block) for block in RUNNABLE if block.page in known]
    left = [block.page for block in RUNNABLE if block.page not in known and code(block) not in covered]
    return {page: left.count(page) for page in left}


def test_blocks_that_no_test_opens_are_listed_with_reasons():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").partition("## Blocks of these pages")[2]
    assert {name: int(count) for name, count in re.findall(r"^\| `([\w.]+)` \| (\d+) \| \S", page, re.MULTILINE)} == not_executed()
    total, runnable = map(int, re.search(r"(\d+) fenced blocks, (\d+) of them", page).groups())
    assert (total, runnable) == (len(BLOCKS), len(RUNNABLE)), "count them anew"
