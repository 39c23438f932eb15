"""What is said in Chinese: every site of an error has it, every sentence is one of the source, parts keep their places."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import argparse
import ast
import errno
import os
import re
import string
import sys
import time
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import said_sites

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from paralign import cli
from paralign.errors import ParalignError, UsageError, WorkerFailed, unwritten
from paralign.model import DIVERGED, Coverage, Finding, StageResult
from paralign.report.language import say, speaking
from paralign.report.text import details, looked_at, message
from paralign.report.translated_errors import told
from paralign.report.translating import PART, TABLES, sentences, translated

CHINESE = re.compile("[\u4e00-\u9fff]")
#: texts that Python's own parser of the command line makes, not the package
ARGPARSE = "zh_argparse.toml"


@cache
def written():
    """Every text of the source, with ``{}`` for each part that is put in."""
    found = set()
    pythons = ast.walk(ast.parse(Path(argparse.__file__).read_text(encoding="utf-8")))
    for nodes in [*(module.nodes for module in said_sites.modules().values()), pythons]:
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
                found.add(re.sub(r"%(\(\w+\))?[sr]", PART, node.value))
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(part.value if isinstance(part, ast.Constant) else PART for part in node.values))
    found |= {os.strerror(number) for number in errno.errorcode}  # what the system says of a path
    return found | {
        text
        for site in (*said_sites.error_sites(), *said_sites.note_sites(), *said_sites.head_sites())
        for text in (*site.what, *site.fragments)
    }


def test_the_source_is_read():
    assert "no such sentence anywhere in it {}" not in written()
    assert "unknown key {}{}" in written()
    assert len(said_sites.error_sites()) > 1000
    assert len(said_sites.note_sites()) > 300


def test_every_error_has_a_chinese_form_or_a_reason():
    known = sentences()
    sites = said_sites.error_sites()
    without = [(site.path, site.line, text) for site in sites for text in said_sites.lacking(site, known)]
    assert without == []
    unread = {site.source for site in sites if site.unknown}
    assert sorted(unread - set(said_sites.EXPLAINED)) == []


def test_what_stands_above_the_table_and_every_method_has_a_chinese_form():
    known, sites = sentences(), said_sites.head_sites()
    assert [(site.path, site.line, text) for site in sites for text in said_sites.lacking(site, known)] == []
    texts = {text for site in sites for text in site.what}
    assert {"float64", "laws of drawn values", "edits could not be tried: {}", "{}: {} {} on {}, Python {}"} <= texts


def test_what_stands_in_the_lists_of_exceptions_is_there():
    sites = said_sites.error_sites()
    texts = {text for site in (*sites, *said_sites.note_sites(), *said_sites.head_sites()) for text in (*site.what, *site.fragments)}
    assert sorted(said_sites.SAME - texts) == []
    assert sorted(set(said_sites.EXPLAINED) - {site.source for site in sites if site.unknown}) == []
    assert sorted(said_sites.SAME & set(sentences())) == []


def test_every_sentence_is_one_of_the_source():
    assert sorted(set(sentences()) - written()) == []


def test_translations_keep_the_parts_of_their_sentence():
    for sentence, chinese in sentences().items():
        assert said_sites.wordy(sentence), sentence
        fields = [(name, form) for _, name, form, _ in string.Formatter().parse(chinese) if name is not None]
        assert {int(name) for name, _ in fields} == set(range(sentence.count(PART))), sentence
        assert {form for _, form in fields} <= {"", "word", "value", "none"}, sentence


def test_no_sentence_is_hidden_by_another():
    for sentence, chinese in sentences().items():
        parts = [f"'p{number}'" for number in range(sentence.count(PART))]
        filled = "".join(piece + part for piece, part in zip(sentence.split(PART), [*parts, ""], strict=True))
        expected = re.sub(r"\{\d:none\}", "", chinese).replace(":word}", "}").replace(":value}", "}").format(*parts)
        assert translated(filled) == expected, sentence


def test_no_table_is_long_and_none_says_a_sentence_twice():
    seen = []
    for path in TABLES.glob("*.toml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) < 500, path.name
        seen += [sentence for line in lines if line.startswith('"') for sentence in tomllib.loads(line)]
    assert sorted({each for each in seen if seen.count(each) > 1}) == []


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
        ("", ""),
        # a name that holds words of the sentence does not move its parts
        ("'a of shape b' is said to be int8, its storage is int16", "'a of shape b' 声明为 int8，其存储为 int16"),
        ("reference: torch 2.13.0+cpu on cpu, Python 3.11.7", "参考：torch 2.13.0+cpu，设备 cpu，Python 3.11.7"),
        # the name of a law is no clause of its own
        (
            "PyTorch's default U(±1/sqrt(fan_in)) = U(-0.2, 0.2) (fit p = 0.6) in the reference, constant 0 in the candidate",
            "参考为 PyTorch's default U(±1/sqrt(fan_in)) = U(-0.2, 0.2) (fit p = 0.6)，复现为 constant 0",
        ),
        # a part that is a sentence, a side, and a list of clauses
        ("the pickle inside is truncated or damaged: bytes follow its end", "其中的 pickle 被截断或已损坏：结尾之后还有字节"),
        ("the reference failed: ValueError: x: y", "参考运行失败：ValueError：x: y"),
        ("the reference has no function 'loss'", "参考一侧没有函数 'loss'"),
        ("paralign.toml: it is nested at least 99 deep, 64 are allowed", "paralign.toml：嵌套至少 99 层，最多允许 64 层"),
        # a word's place takes no half sentence, and a clause behind another has its own words
        ("drop_last is 1 in the reference, and 0 there", "drop_last is 1 in the reference, and 0 there"),
        ("the value comes from here: False; the reference has True, a/b.py:13", "该值来自这里：False；参考为 True，a/b.py:13"),
        (
            "learning rate: 0.01 in the reference, 0.02 in the candidate, 2 times the reference's, on a.bias, b.bias and 1 more",
            "学习率：参考为 0.01，复现为 0.02，是参考的 2 倍（a.bias, b.bias，另有 1 个）",
        ),
        ("learning rate: the candidate's schedule is one step behind, on all parameters", "学习率：复现的学习率策略落后一步（所有参数）"),
        (
            "weight decay: none in the reference, 0.001, added to the gradient (L2) in the candidate, on all parameters",
            "权重衰减：参考为 无，复现为 0.001，加到梯度上（L2）（所有参数）",
        ),
        (
            "Nesterov momentum: yes in the reference, no in the candidate, on all parameters",
            "Nesterov 动量：参考为 是，复现为 否（所有参数）",
        ),
        ("there are no inputs; nobody wrote this; the file is empty", "没有输入；nobody wrote this；文件为空"),
    ],
)
def test_parts_are_put_in_their_places(english, chinese):
    assert translated(english) == chinese


def test_a_name_is_never_translated():
    assert translated("the checkpoint holds no tensor the file") == "检查点中没有张量 文件"  # not quoted, and a phrase of the source
    assert translated("the checkpoint holds no tensor 'the file'") == "检查点中没有张量 'the file'"
    assert translated("paralign.toml has no table [reference]") == "paralign.toml 没有表 [reference]"


@pytest.mark.parametrize("filler", ["'", "; ", ": ", " of shape ", "{}", "{0}", "\\'", "(", "a" * 8])
def test_a_hostile_sentence_costs_no_time(filler):
    sentence = "tensor " + filler * (2000 // len(filler)) + " should hold"
    began = time.perf_counter()
    assert isinstance(translated(sentence), str)
    assert time.perf_counter() - began < 2.0


def _raised(call):
    with pytest.raises(ParalignError) as caught:
        call()
    return caught.value


def _damaged(folder, name, data):
    (folder / name).write_bytes(data)
    return folder / name


def _read_npy(path):
    from paralign.capture.foreign import load_foreign

    return load_foreign(path)


def _checkpoint(path):
    from paralign.formats.opening import open_checkpoint

    return open_checkpoint(path)


def _loaded(folder, text):
    from paralign.run.project import read

    (folder / "paralign.toml").write_text(text)
    return read(folder)


#: name -> what makes a real error in a folder
REAL = {
    "no report": lambda folder: _command("paralign.report.told", "read", folder),
    "no toml": lambda folder: _loaded(folder, "[reference\n"),
    "unknown key": lambda folder: _loaded(folder, "[refrence]\n"),
    "no numbers": lambda folder: _loaded(folder, "[reference]\nframework = 3\n"),
    "text in a npy": lambda folder: _read_npy(_damaged(folder, "a.npy", b"hello")),
    "a cut npz": lambda folder: _read_npy(_damaged(folder, "a.npz", b"PK\x03\x04abc")),
    "an empty checkpoint": lambda folder: _checkpoint(_damaged(folder, "a.safetensors", b"")),
    "a cut checkpoint": lambda folder: _checkpoint(_damaged(folder, "a.safetensors", b"\xff" * 40)),
    "a pointer": lambda folder: _checkpoint(_damaged(folder, "a.pth", b"version https://git-lfs.github.com/spec/v1\n")),
    "no such checkpoint": lambda folder: _checkpoint(folder / "none.pth"),
    "a disk that is full": lambda folder: _raise(unwritten(folder, OSError(28, "No space left on device"))),
    "a side that failed": lambda _: _raise(WorkerFailed("ValueError", "bad", traceback="x", side="candidate")),
}


def _raise(error):
    raise error


def _command(module, function, *given):
    import importlib

    return getattr(importlib.import_module(module), function)(*given)


@pytest.mark.parametrize("name", REAL)
def test_real_errors_are_told_in_chinese(name, tmp_path):
    error = _raised(lambda: REAL[name](tmp_path))
    with speaking("zh"):
        lines = told(error).splitlines()
    assert CHINESE.search(lines[0]), lines
    fix = [line for line in lines if line.startswith("  修正：")]
    assert bool(fix) == bool(error.hint)
    assert all(CHINESE.search(line.removeprefix("  修正：")) for line in fix), lines


def test_an_error_in_both_languages():
    error = ParalignError("the file is empty", where="a\nb", hint="name a file")
    assert told(error) == str(error)
    with speaking("zh"):
        assert told(error) == "文件为空\n  位置：a\\u000ab\n  修正：指定一个文件"
        assert told(UsageError("new words", hint="of somebody")) == "new words\n  修正：of somebody"


def test_what_stages_say_is_told_in_chinese():
    stage = StageResult("forward", verdict=DIVERGED, method="in order of execution", notes=["nothing was compared", "of the user's own"])
    stage.warnings = ["the sides run on different devices: cpu and gpu:0"]
    stage.findings = [Finding("own/rule", "sort on both sides", "switch shuffling off on both sides")]
    stage.failure = {"type": "UsageError", "message": "the file is empty", "frames": [], "side": "reference"}
    with speaking("zh"):
        shown = "\n".join(
            str(line) for part in details(stage) for line in getattr(getattr(part, "renderable", part), "renderables", [part])
        )
    for chinese in (
        "没有比较任何内容",
        "of the user's own",
        "两侧在不同的设备上运行：cpu 和 gpu:0",
        "两侧都关闭打乱",
        "UsageError: 文件为空",
    ):
        assert chinese in shown, shown
    shown = "\n".join(str(line) for part in details(stage) for line in getattr(getattr(part, "renderable", part), "renderables", [part]))
    assert not CHINESE.search(shown)


def test_what_a_users_own_program_says_is_never_translated():
    assert message({"type": "ValueError", "message": "the file is empty"}) == "the file is empty"
    with speaking("zh"):
        assert message({"type": "ValueError", "message": "the file is empty"}) == "the file is empty"
        assert message({"type": "CaptureFormatError", "message": "the file is empty"}) == "文件为空"


def test_how_much_was_looked_at_in_both_languages():
    assert looked_at(Coverage("batches", 1000, 2000)) == str(Coverage("batches", 1000, 2000)) == "1,000 of 2,000 batches"
    with speaking("zh"):
        assert looked_at(Coverage("batches", 1000, 2000)) == "2,000 中的 1,000 个 batch"
        assert looked_at(Coverage("samples evaluated", 3, None)) == "3 个样本参与评估"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("check --lang zh nowhere", 2, "修正："),
        ("--lang zh", 2, ""),
        ("scan nowhere.py --lang=zh", 2, "没有这个文件或文件夹"),
        ("scan --jsno x --lang zh", 2, "没有选项 '--jsno'；是否指 '--json'？"),
        ("scan nowhere.py --lang en", 2, "there is no such file or folder"),
        ("explain torch.erfc --out x --lang zh", 2, "--torch 和 --out 用于 --issue"),
        ("scan --lang zh", 2, "缺少参数："),
        ("scan --lang zh a --out", 2, "需要一个值"),
        ("status --lang zh a b c", 2, "参数过多："),
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


def test_the_figures_are_told(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["said_sites.py"])
    said_sites.main()
    out = capsys.readouterr().out
    told_in_chinese, sites, handed_on = map(int, re.search(r"^errors: (\d+) of (\d+) sites have Chinese, (\d+) hand on", out).groups())
    assert told_in_chinese + handed_on == sites > 1000
    assert handed_on < 100
    told_in_chinese, sites, handed_on = map(int, re.search(r"remedies: (\d+) of (\d+) sites have Chinese, (\d+) hand on", out).groups())
    assert told_in_chinese > 0.9 * (sites - handed_on) > 300


def test_two_parts_that_nothing_divides_are_one_where_they_are_a_sentence():
    """``proven: {}{}``: a word and what follows it are put in apart only where they make no sentence."""
    with speaking("zh"):
        told_ = say("proven: assignments that the shapes allow, tried by running both models: 9")
        assert told_ == "已证实：形状允许的分配方式，运行两个模型逐一尝试：9"
        assert say("proven: forward") == "已证实：forward"


def test_what_was_counted_of_a_split_keeps_the_splits_name():
    with speaking("zh"):
        assert looked_at(Coverage("train batches", 2, 3)) == "3 中的 2 个 batch（train）"
    assert looked_at(Coverage("train batches", 2, 3)) == "2 of 3 train batches"


def test_both_sides_are_a_word_and_brackets_of_a_setting_end_no_part():
    both = "train_step of the reference and the candidate draws random numbers: the candidate's drew what the reference's drew"
    assert translated(both).startswith("参考与复现一侧的 train_step")
    settings = "0.001, added to the gradient (L2) in the reference, none in the candidate (24 of 24 parameters differ)"
    assert translated(f"settings differ first at a.weight: weight decay: {settings}").endswith(
        "（L2），复现为 none（24 个参数中 24 个不同）"
    )
