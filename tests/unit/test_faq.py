"""The page of questions: every command and stage that it names is there, both languages say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paralign.cli import parser
from paralign.registry import BY_NAME

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["faq.md", "faq.zh.md"]


def commands(text):
    return re.findall(r"`paralign ([^`]+)`", text) + re.findall(r"^\$ paralign (.+)$", text, re.MULTILINE)


def known(command):
    """Whether the command line takes a command; `check` with the stages that it is followed by, for DIR may be left out."""
    words = command.split()
    if words[0] == "check":
        return all(word in BY_NAME for word in words[1:])
    more = {"log show": ["x.log"], "log compare": ["a.log", "b.log"]}.get(" ".join(words), [])
    try:
        parser().parse_args([*words, *more])
    except SystemExit:
        return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_exist(page):
    found = commands((DOCS / page).read_text(encoding="utf-8"))
    assert len(found) > 10
    assert [command for command in found if not known(command)] == []


def test_a_command_that_is_gone_would_be_seen():
    assert not known("watch-nothing")
    assert not known("check nowhere")


def test_both_languages_answer_the_same_questions():
    first, second = ((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    rows = [[len(re.findall(r"^\|", part, re.MULTILINE)) for part in text.split("\n## ")] for text in (first, second)]
    assert rows[0] == rows[1]
    assert re.findall(r"```python\n(.*?)```", first, re.DOTALL) == re.findall(r"```python\n(.*?)```", second, re.DOTALL)


def test_every_remedy_has_its_place_on_the_page():
    from paralign.run.remedies import REMEDIES

    said = {"gpu-memory": "Out of memory", "two-devices": "mixes two devices", "host-memory": "Host memory", "shared-memory": "shared memory", "optimizer-state": "moment_0",
            "class-axis": "axis of classes", "nccl": "NCCL", "trainers": "Trainers", "static-graph": "static graph", "crash": "crash",
            "eval-backward": "Tensor holds no memory", "forward-arguments": "positional arguments but"}  # fmt: skip
    text = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert {remedy.id for remedy in REMEDIES} == set(said)
    assert [name for name, words in said.items() if words not in text] == []
