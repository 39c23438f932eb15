"""What commands print in Chinese: one table, every message of it used, nothing that has to be in it missing."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

from paralign import cli
from paralign.catalogue.entries import read_all
from paralign.commands.doctor import _CONCLUSIONS
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, CheckResult, Finding, StageResult
from paralign.progress.steps import STEPS, State
from paralign.registry import STAGES
from paralign.report import findings
from paralign.report.chinese import CHINESE
from paralign.report.language import current, of_one, say, speaking, stage
from paralign.report.weight_tables import VERDICTS
from paralign.verification.certificate import Judgement

SOURCE = Path(__file__).parents[2] / "src" / "paralign"
FILES = {"paralign.toml": '[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n[inputs]\nshape = [2, 3]\n'}
TWICE = "def build_model():\n    return lambda x: x * 2\n"


@pytest.fixture
def port(tmp_path):
    for name, text in {**FILES, "reference.py": TWICE, "candidate.py": TWICE.replace("2", "3")}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def said():
    """The messages that the code hands to ``say``, as the table has them, and every other text of the code."""
    direct, texts = set(), set()
    for path in SOURCE.rglob("*.py"):
        if path.name == "chinese.py":
            continue
        text = path.read_text(encoding="utf-8")
        speaks = "from paralign.report.language import" in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
            if speaks and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say":
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                if words:
                    direct.add(f"{words[0]} ({words[1]})" if len(words) > 1 else words[0])
    return direct, texts


#: messages that are chosen at run time
CHOSEN = {
    *(ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED),
    *(each.name for each in STAGES),
    *(state.value for state in State),
    *(judgement.value for judgement in Judgement),
    *_CONCLUSIONS.values(),
    *VERDICTS,
    *(meaning for _, meaning in VERDICTS.values()),
    "reference",
    "candidate",
}


def test_every_message_of_the_table_is_used():
    direct, texts = said()
    unused = [message for message in CHINESE if message not in direct and message not in CHOSEN and message not in texts]
    assert unused == []


def test_every_message_that_is_said_is_in_the_table():
    direct, _ = said()
    assert sorted(direct - set(CHINESE)) == []
    assert sorted(CHOSEN - set(CHINESE)) == []


def test_translations_fill_in_what_the_english_does():
    def places(text):
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    for english, chinese in CHINESE.items():
        assert places(english) == places(chinese), english
        words = re.sub(r"\{\w+\}|\(\w+\)", "", english)
        assert re.search(r"[\u4e00-\u9fff]", chinese) or not re.search("[A-Za-z]", words), f"{english} is not translated"


def test_steps_and_catalogue_have_both_languages():
    assert all(step.title["zh"] for step in STEPS)
    assert all(entry.differs.zh for entry in read_all())


def test_the_language_ends_with_its_block():
    with speaking("zh"):
        assert (current(), say("stage"), stage("loss")) == ("zh", "阶段", "loss 损失")
        assert say("no such message") == "no such message"
    assert (current(), say("stage"), stage("loss")) == ("en", "stage", "loss")
    assert say("error", "column") == "error"


def printed(capsys, *words):
    code = cli.main(list(words))
    told = capsys.readouterr()
    return code, told.out


def test_a_check_in_chinese(capsys, port):
    code, out = printed(capsys, "check", str(port), "forward", "--lang", "zh")
    assert code == 1
    lines = out.splitlines()
    assert re.search(r"阶段 +结论 +误差 +噪声 +误差 ÷ 噪声 +最差的张量 +判定方法", out)
    assert "forward 前向  不一致" in out
    assert lines[next(n for n, line in enumerate(lines) if line.startswith("forward 前向 不一致: ")) + 1].startswith("  output: 误差 ")
    assert any(line.startswith("-v 显示") for line in lines)
    assert lines[-2] == "结论：不一致"
    assert lines[-1].startswith("报告：")
    assert not {"verdict:", "where it starts", "error ÷ noise"} & set(re.split(r"\s{2,}|\n", out))
    assert 'lang="zh"' in (port / "result" / "report.html").read_text()


def test_status_and_quiet_in_chinese(capsys, port):
    _, out = printed(capsys, "status", str(port), "--lang", "zh")
    assert re.match(r"步骤 +状态 +核验点\n3.1   模型结构对齐 +未开始 +1\n", out)
    assert "12 个步骤中完成 0 个" in out
    assert "\n下一步：paralign check" in out
    assert printed(capsys, "check", str(port), "-q", "forward", "--lang", "zh") == (1, "结论：不一致\n")


def test_the_environment_chooses_the_language(capsys, port, monkeypatch):
    monkeypatch.setenv("PARALIGN_LANG", "zh")
    assert printed(capsys, "check", str(port), "-q", "forward")[1] == "结论：不一致\n"
    assert printed(capsys, "check", str(port), "-q", "forward", "--lang", "en")[1] == "verdict: diverged\n"
    assert "只看不一致的" in (port / "result" / "report.html").read_text()
    monkeypatch.setenv("PARALIGN_LANG", "fr")
    assert cli.main(["status", str(port)]) == 2
    assert "there is no language 'fr'" in capsys.readouterr().err


def test_findings_of_the_catalogue_are_told_in_chinese():
    entry = next(entry for entry in read_all() if entry.id == "avg-pool2d-padding")
    finding = Finding("catalogue/avg-pool2d-padding", entry.differs.en, entry.fix.words.en)
    assert findings.words(finding) == (entry.differs.en, entry.fix.words.en)
    missing = Finding("catalogue/torch.optim.lr_scheduler.SequentialLR", "no counterpart", "write it")
    with speaking("zh"):
        assert findings.words(finding) == (entry.differs.zh, entry.fix.words.zh)
        assert "LambdaDecay" in findings.words(missing)[1]
        assert "整个" in findings.words(missing)[1]
        own = Finding("train/data", "cause", "fix")
        assert findings.words(own) == ("cause", "fix")


def test_json_and_files_stay_english(capsys, port):
    _, out = printed(capsys, "check", str(port), "forward", "--json", "--lang", "zh")
    assert '"verdict": "diverged"' in out
    assert "不一致" not in (port / "result" / "report.json").read_text()


def test_what_makes_a_check_again():
    assert CheckResult(stages=[StageResult("loss")], command="paralign check port loss").to_dict()["command"] == "paralign check port loss"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([], "paralign check {} --out {}/out"),
        (["forward", "weights"], "paralign check {} forward weights --out {}/out"),
        (["forward", "--strict"], "paralign check {} forward --strict --out {}/out"),
    ],
)
def test_the_page_tells_the_command_with_its_stages(capsys, port, words, command):
    printed(capsys, "check", str(port), *words, "--out", str(port / "out"))
    expected = command.format(port.name, port)
    assert f"<code>{expected}</code>" in (port / "out" / "report.html").read_text()
    (port / "out" / "report.html").unlink()
    printed(capsys, "report", str(port / "out"))
    assert f"<code>{expected}</code>" in (port / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1 values that differ", "1 value that differs"),
        ("and 1 more values", "and 1 more value"),
        ("1 random operations here, 0 there", "1 random operation here, 0 there"),
        ("1 batches, 1 classes, 1 axes", "1 batch, 1 class, 1 axis"),
        ("step 1 values differ, 1 of 1 tensors", "step 1 values differ, 1 of 1 tensors"),
        ("0.1 values, fc.1 weights, -1 values, 11 places, 1,001 rows", "0.1 values, fc.1 weights, -1 values, 11 places, 1,001 rows"),
        ("1 lens, 1 places-of-mine, 1 values.txt", "1 lens, 1 places-of-mine, 1 values.txt"),
        ("class 1 samples differ, head 1 outputs differ", "class 1 samples differ, head 1 outputs differ"),
        ("0 and 1 values are common, 5 files and 1 values are", "0 and 1 values are common, 5 files and 1 value is"),
        ("1 calls; 'got 1 values': 1 notes", "1 call; 'got 1 values': 1 note"),
        ("the port's 1 values and the model's 1 calls", "the port's 1 value and the model's 1 call"),
        (
            "at 1 places it failed with RuntimeError: expected 1 inputs, got 2",
            "at 1 place it failed with RuntimeError: expected 1 inputs, got 2",
        ),
    ],
)
def test_one_of_something_is_called_by_its_singular(text, told):
    assert of_one(text) == say(text) == told
    with speaking("zh"):
        assert say(text) == text


def test_what_is_put_into_a_message_is_as_it_was_written():
    told = say(
        "the {side} failed: {message:>24}; {count} {what} differ", side="port", message="expected 1 inputs, got 2", count=1, what="values"
    )
    assert told == "the port failed: expected 1 inputs, got 2; 1 value differs"
    assert say("{message!r} at {count} places", message="got 1 inputs", count=1) == "'got 1 inputs' at 1 place"
    assert say("{first} and {second}: {count} values", first="a \ue0f1", second="\ue0f1", count=2) == "a \ue0f1 and \ue0f1: 2 values"
