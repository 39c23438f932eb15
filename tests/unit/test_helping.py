"""Every text of ``--help`` has its Chinese, in one table; the table says nothing else; lines fit the terminal."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time

import pytest

from paralign import cli
from paralign.commands import helping
from paralign.commands.grammar import Parser, inner_parsers
from paralign.report.language import speaking

CHINESE = re.compile("[\u4e00-\u9fff]")


def texts(top):
    """All that ``--help`` of a parser and of its commands prints, but names."""
    yield "usage: "
    for parser in [top, *inner_parsers(top)]:
        yield from (parser.description, parser.epilog)
        for group in parser._action_groups:
            yield from (group.title, group.description)
        for action in parser._actions:
            yield action.help
            if isinstance(action, argparse._SubParsersAction):
                yield from (each.help for each in action._choices_actions)


def said(top):
    return {text for text in texts(top) if text and text is not argparse.SUPPRESS}


def test_every_text_of_the_help_has_its_chinese():
    assert len(said(cli.parser())) > 200
    assert [part for text in said(cli.parser()) for part in helping.lacking(text, "zh")] == []


def test_a_text_without_chinese_is_found_and_stays_english():
    top = Parser(prog="whatnots", description="Swallow whatnots.", epilog="exit codes: 0 aligned · 1 swallowed")
    top.add_argument("--whatnot", help="which one is swallowed")
    lacking = {part for text in said(top) for part in helping.lacking(text, "zh")}
    assert lacking == {"Swallow whatnots.", "swallowed", "which one is swallowed"}
    with speaking("zh"):
        shown = top.format_help()
    assert "Swallow whatnots." in shown
    assert "exit codes: 0 aligned · 1 swallowed" in shown
    assert "选项" in shown


def test_the_table_says_nothing_that_no_help_says():
    used = said(cli.parser())
    meanings = set()
    for text in used:
        head, codes = helping._exit_codes(text)
        meanings |= {head, *(meaning for _, meaning in codes)}
    sections = helping.table("zh")
    assert [e for name, section in sections.items() for e in section if e not in (meanings if name == helping.EXITS else used)] == []
    every = [english for name, section in sections.items() if name != helping.EXITS for english in section]
    assert len(every) == len(set(every))
    assert all(CHINESE.search(text) for section in sections.values() for text in section.values())


def test_names_in_a_text_stay_as_they_are():
    """Options and files that the English names stand in the Chinese too."""
    named = re.compile(r"--[a-z-]+|`[^`]+`|\b[\w]+\.(?:toml|json|npy|pth|md|patch)\b|%\(\w+\)s")
    for name, section in helping.table("zh").items():
        for english, text in section.items():
            names = {each for each in named.findall(english) if each != "`path class`"}
            assert {each for each in names if each not in text} == set(), (name, english)


def test_help_is_chinese_from_the_first_line_to_the_last(capsys):
    for command in (["check"], ["weights", "diff"], []):
        with pytest.raises(SystemExit) as ended:
            cli.main([*command, "--help", "--lang", "zh"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert shown.startswith("用法：paralign")
        assert not re.search(r"usage|exit code|positional|options|show this", shown)
        assert "退出码：0 " in shown


def test_english_help_is_argparses_own():
    for parser in [cli.parser(), *inner_parsers(cli.parser())]:
        shown = parser.format_help()
        parser.formatter_class = argparse.HelpFormatter
        assert shown == parser.format_help()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    with speaking("zh"):
        shown = [line for parser in inner_parsers(cli.parser()) for line in (parser.description, parser.epilog) if line]
        lines = [line for text in shown for line in helping.wrapped(helping.translated(text), columns)]
    words = max(helping._columns(word) for line in lines for word in re.findall(r"[\x21-\x7e]+", line))
    assert max(map(helping._columns, lines)) <= max(columns, words + 2)
    assert not any(line[0] in "，。；：、）" for line in lines)


def test_wrapped_texts_lose_nothing():
    for section in helping.table("zh").values():
        for text in section.values():
            for width in (1, 7, 33, 500):
                assert "".join("".join(helping.wrapped(text, width)).split()) == "".join(text.split())
    assert helping.wrapped("", 10) == []


def test_help_is_quick_and_imports_no_framework():
    code = "import sys\nfrom paralign import cli\ntry:\n cli.main(['--help'])\nexcept SystemExit:\n print(sorted({'torch','paddle','numpy','rich','jinja2','tomllib'} & set(sys.modules)))"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
    assert time.perf_counter() - began < 5  # 0.1 s where nothing else runs
