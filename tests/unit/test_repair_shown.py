"""A repaired fault on the terminal: the sentence first, few lines, consequences on a line."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

from rich.console import Console

from paralign.agents.commanding import Done
from paralign.agents.tools import Tools
from paralign.catalogue.entries import Words
from paralign.model import ALIGNED, DIVERGED, CheckResult, Finding, StageResult
from paralign.repair.edited_source import Source
from paralign.repair.proposals import Proposal
from paralign.repair.trying import Step, _kept, _Search
from paralign.report import short_form
from paralign.report.language import speaking
from paralign.report.text import render

PATCH = "--- a/net.py\n+++ b/net.py\n@@ -1,3 +1,3 @@\n x = 1\n-y = x * 0.1\n+y = x * 0.2\n z = y\n"


def shown(language="en", together=(), render=render):
    found = Finding(
        "repair/constant", "the candidate has `0.1`, the reference `0.2`", "write `0.2` at net.py:2", True, 0.5, 1e-16, PATCH,
        ["loss"], ["data"], "复现为 `0.1`", "改为 `0.2`", list(together),
    )  # fmt: skip
    noisy = StageResult("loss", DIVERGED, warnings=[f"consequence {n}" for n in range(20)])
    result = CheckResult([StageResult("forward", DIVERGED, findings=[found], warnings=["a warning"]), noisy])
    console = Console(width=140, record=True, file=io.StringIO())
    with speaking(language):
        console.print(render(result))
    return console.export_text()


def test_the_sentence_the_lines_and_the_evidence_and_nothing_else():
    text = shown()
    lines = text.splitlines()
    assert len(lines) <= 12
    first = next(n for n, line in enumerate(lines) if "the candidate has `0.1`" in line)
    assert [line.strip() for line in lines[first + 1 : first + 4]] == ["write `0.2` at net.py:2", "-y = x * 0.1", "+y = x * 0.2"]
    assert "error 0.5, then 1e-16" in text
    assert "gone with the patch of forward" in text
    assert "not gone: data" in text
    assert "consequence" not in text


def test_in_chinese_too():
    text = shown("zh")
    assert "复现为" in text
    assert "已证实" in text


def test_an_edit_that_proves_nothing_alone_names_the_other():
    text = shown(together=["net.py:9"])
    assert "proven together with the edit at net.py:9: with both the stage is aligned, with one it is not (error 0.5, then 1e-16)" in text
    assert "with this edit" not in text
    assert "proven together with the edit at net.py:9: with both the error goes from" in shown(
        together=["net.py:9"], render=short_form.render
    )
    assert "with both" not in shown()
    assert "with both" not in shown(render=short_form.render)
    for each in (render, short_form.render):
        assert "与 net.py:9 处的修改一起" in shown("zh", ["net.py:9"], each)


class Room:
    """Takes every edit for one that aligns all."""

    left, trials = 100.0, 1

    def __init__(self, *read):
        self.reference = SimpleNamespace(depended_on={str(path): "" for path in read}, asked=frozenset(), folder=Path())

    def run(self, _edited, names, **_how):
        return CheckResult([StageResult(name, ALIGNED) for name in names])


def kept(tmp_path, steps, *, room=None, held=True):
    """What is told of edits that were proven in one go."""
    path, content = tmp_path / "net.py", b"a = 1\nb = 2\n"
    stage = StageResult("metric", DIVERGED)
    search = _Search(SimpleNamespace(folder=tmp_path), room or Room(), ["metric"], CheckResult([stage]), lambda _: None)
    made = []
    for old, new in steps:
        source = Source(path, content)
        start = source.text.index(old)
        edit = source.edit(start, start + len(old), new)
        said = Words(f"{old} for {new}", "")
        content = edit.applied()
        made.append(Step(Proposal("value", edit, said, Words(f"write {new}", f"改为 {new}")), {path: content}))
    assert _kept(search, stage, made) is held
    return [finding for _, finding in search.done.findings]


def test_no_edit_is_kept_of_a_file_that_the_reference_was_seen_to_read(tmp_path):
    (tmp_path / "net.py").write_text("a = 1\nb = 2\n")
    assert kept(tmp_path, [("1", "3")], room=Room(tmp_path / "net.py"), held=False) == []


def test_each_of_two_edits_names_the_other_one(tmp_path):
    first, second = kept(tmp_path, [("1", "3"), ("2", "4")])
    assert (first.together, second.together) == (["net.py:2"], ["net.py:1"])
    assert first.fix == "write 3 at net.py:1, together with the edit at net.py:2"
    assert "须与 net.py:1 处的修改一起" in second.fix_zh
    (alone,) = kept(tmp_path, [("1", "3")])
    assert alone.together == []
    assert alone.fix == "write 3 at net.py:1"
    told = CheckResult([StageResult("metric", DIVERGED, findings=[first, second])]).to_dict()["stages"][0]["findings"]
    assert [each["together"] for each in told] == [["net.py:2"], ["net.py:1"]]


def test_an_agent_is_told_which_edits_belong_together(tmp_path, monkeypatch):
    tools = Tools(tmp_path)
    findings = kept(tmp_path, [("1", "3"), ("2", "4")])
    report = CheckResult([StageResult("metric", DIVERGED, findings=findings)]).to_json()
    answer = tools._repaired(Done(1, report, ""), tmp_path / "result")
    assert [(each["together"], each["proven"]) for each in answer["edits"]] == [(["net.py:2"], True), (["net.py:1"], True)]
