"""Errors in Chinese: every sentence of the table is one that the source raises, parts keep their places, what is not known stays English."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import ast
import re
import string
from functools import cache
from pathlib import Path

import pytest

from paralign import cli
from paralign.errors import ParalignError
from paralign.report.language import speaking
from paralign.report.translated_errors import SENTENCES, told, translated

SOURCE = Path(__file__).parents[2] / "src" / "paralign"


@cache
def written():
    """Every text of the source, with ``{}`` for each part that is put in."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        if path.name != "translated_errors.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
                elif isinstance(node, ast.JoinedStr):
                    found.add("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values))
    return found


def test_the_source_is_read():
    assert "no such sentence anywhere in it {}" not in written()
    assert "unknown key {}{}" in written()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_sentence_is_one_of_the_source_and_keeps_its_parts(sentence):
    assert sentence in written()
    chinese = SENTENCES[sentence]
    places = sorted(int(name) for _, name, _, _ in string.Formatter().parse(chinese) if name)
    assert places == list(range(sentence.count("{}")))
    assert re.search("[\u4e00-\u9fff]", chinese)
    filled = sentence.replace("{}{}", "'a'{}").replace("{}", "b", 99)
    assert translated(filled) != filled


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("there is no stage 'foward'; did you mean 'forward'?", "没有阶段 'foward'；是否指 'forward'？"),
        ("unknown key 'stges'", "未知的键 'stges'"),
        ("values from 0 to 1000 do not fit into int8", "0 到 1000 的值放不进 int8"),
        ("3 of 12 shards are missing: a, b", "12 个分片中缺少 3 个：a, b"),
        ("a sentence that nobody has written", "a sentence that nobody has written"),
        ("there is no option '--a{0}b'", "没有选项 '--a{0}b'"),
        ("the report is no JSON: line 1\nline 2", "报告不是 JSON：line 1\nline 2"),
    ],
)
def test_parts_are_put_in_their_places(english, chinese):
    assert translated(english) == chinese


def test_an_error_in_both_languages():
    error = ParalignError("the file is empty", where="a\nb", hint="name another")
    assert told(error) == str(error)
    with speaking("zh"):
        assert told(error) == "文件为空\n  位置：a\\u000ab\n  修正：name another"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("check --lang zh nowhere", 2, "修正："),
        ("--lang zh", 2, ""),
        ("scan nowhere.py --lang=zh", 2, "没有这个文件或文件夹"),
        ("scan --jsno x --lang zh", 2, "没有选项 '--jsno'；是否指 '--json'？"),
        ("scan nowhere.py --lang en", 2, "there is no such file or folder"),
        ("explain torch.erfc --out x --lang zh", 2, "--torch 和 --out 用于 --issue"),
    ],
)
def test_the_command_says_errors_in_the_language_that_is_asked(capsys, tmp_path, monkeypatch, words, code, said):
    monkeypatch.chdir(tmp_path)
    try:
        found = cli.main(words.split())
    except SystemExit as end:
        found = end.code
    assert (found, said in capsys.readouterr().err) == (code, True)


def test_the_environment_asks_for_a_language_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARALIGN_LANG", "zh")
    assert cli.main(["scan", "nowhere.py"]) == 2
    assert "没有这个文件或文件夹" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["scan", "--jsno"])
    assert "没有选项" in capsys.readouterr().err
