"""No command prints a sentence that has no Chinese form; several print Chinese from the first line to the last."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import printed_sentences

from paralign import cli
from paralign.capture import save_foreign
from paralign.report.chinese import CHINESE
from paralign.report.translating import sentences

CHINESE_LETTER = re.compile("[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def known():
    return {*CHINESE, *sentences()}


def test_nothing_is_printed_past_the_translating_function(known):
    assert printed_sentences.untranslated(known) == []


@pytest.mark.parametrize(
    "source",
    [
        'print(f"{count} whatnots were swallowed")',
        'print("whatnots were swallowed")',
        'lines.append("  … and " + f"{count} whatnots more")',
        'print(f"{say(what)}: {len(whatnots)} of them swallowed")',
        'def told():\n    return [f"{name}: no whatnot in it"]',
        'progress.step("swallowing the whatnots")',
    ],
)
def test_a_sentence_that_goes_past_it_is_found(known, source):
    assert len(printed_sentences.of_source(source, known)) >= 1


@pytest.mark.parametrize(
    "source",
    [
        'print(say("{count} whatnots were swallowed", count=count))',
        'raise UsageError("there are no whatnots", hint="swallow some")',
        'parser.add_argument("x", help="whatnots to swallow")',
        'def told():\n    """Swallow whatnots."""\n    return {"whatnots": 1}',
        'print(f"{path}:{line} {name}")',
    ],
)
def test_what_is_translated_or_no_sentence_is_not(known, source):
    assert printed_sentences.of_source(source, known) == []


def test_every_exemption_is_needed(known):
    texts = {text for module in printed_sentences.said_sites.modules().values() for text in _texts(module)}
    assert sorted(set(printed_sentences.EXEMPT) - texts) == []
    assert sorted(set(printed_sentences.EXEMPT) & known) == []


def _texts(module):
    return [printed_sentences.written(node) for node in module.nodes if isinstance(node, (ast.JoinedStr, ast.Constant))]


def spoken(capsys, *words):
    code = cli.main([*words, "--lang", "zh"])
    told = capsys.readouterr()
    return code, told.out + told.err


def without_names(text):
    """The lines of an output that have words but no Chinese letter; paths, code and names are no words."""
    plain = re.sub(r"\S*[/_.=\[\]]\S*", "", text)
    return [line for line in plain.splitlines() if re.search(r"[A-Za-z]{3,} +[a-z]{2,}", line) and not CHINESE_LETTER.search(line)]


def test_a_small_set_is_told_in_chinese(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, told = spoken(capsys, "data", "example", "--count", "4")
    assert (code, without_names(told)) == (0, [])
    assert "4 张图片，4 个类别" in told
    assert "下一步：在两侧的 build_dataset 中读取 lite_data" in told
    next(iter((tmp_path / "lite_data").rglob("*.png"))).unlink()
    (tmp_path / "lite_data" / "stranger.txt").write_text("x")
    code, told = spoken(capsys, "data", "verify", "lite_data")
    assert (code, without_names(told)) == (1, [])
    assert {"缺失", "清单中没有"} <= {line.partition(":")[0] for line in told.splitlines()}
    assert "个文件中" in told


def test_checkpoints_and_logs_are_told_in_chinese(capsys, tmp_path):
    save_foreign(tmp_path / "weights.npy", {"fc.weight": np.zeros((2, 3), "float32")})
    code, told = spoken(capsys, "weights", "show", str(tmp_path / "weights.npy"))
    assert (code, without_names(told)) == (0, [])
    assert "1 个张量中的 1 个，6 个元素" in told
    log = tmp_path / "train.jsonl"
    log.write_text('{"epoch": 0, "loss": 1.0}\n{"epoch": 1, "loss": 0.5}\nhello\n')
    code, told = spoken(capsys, "log", "show", str(log))
    assert "2 行记录，0 行损坏，1 行其他内容" in told
    (tmp_path / "other.jsonl").write_text('{"epoch": 0, "loss": 1.0}\n{"epoch": 1, "loss": 0.9}\n')
    code, told = spoken(capsys, "log", "compare", str(log), str(tmp_path / "other.jsonl"), "--atol", "0.1")
    assert (code, without_names(told)) == (1, [])
    assert "最大相差 0.4" in told
    assert "最先超限于第 1 轮" in told


def test_logs_of_processes_are_told_in_chinese(capsys, tmp_path):
    (tmp_path / "workerlog.0").write_text("all well\n")
    (tmp_path / "workerlog.1").write_text(
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    f()\nValueError: 3 of 4\n'
    )
    code, told = spoken(capsys, "rank-logs", str(tmp_path))
    assert code == 1
    assert "进程 1 最先失败：ValueError: 3 of 4" in told
    assert "进程 0：日志中没有异常" in told
    assert "no exception" not in told


def test_what_a_scan_finds_is_told_in_chinese(capsys, tmp_path):
    (tmp_path / "net.py").write_text("import torch\nx = torch.zeros(3)\ny = torch.nn.functional.gelu(x)\n")
    _, told = spoken(capsys, "scan", str(tmp_path))
    assert "1 个文件、3 行中的 2 处调用" in told
    assert "calls in" not in told
    assert cli.main(["scan", str(tmp_path), "--markdown", "--lang", "zh"]) in (0, 1, 2)
    assert not CHINESE_LETTER.search(capsys.readouterr().out)
