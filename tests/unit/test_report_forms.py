"""A report in other forms: JUnit, SARIF, remarks, Markdown, the page; also of hostile names and damaged files."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from paralign import cli
from paralign.errors import CaptureFormatError, UsageError
from paralign.model import (
    ALIGNED,
    DIVERGED,
    ERROR,
    NOT_TESTED,
    UNDERPOWERED,
    CheckResult,
    Divergence,
    Finding,
    Noise,
    Pair,
    Point,
    Record,
    StageResult,
    Stats,
    TracedValue,
)
from paralign.report import page
from paralign.report.junit import junit
from paralign.report.markdown import markdown
from paralign.report.page import Both, html
from paralign.report.remarks import remarks
from paralign.report.sarif import sarif
from paralign.report.told import Place, read, told

HOSTILE = "<img src=x onerror=alert(1)>]]></script>\x1b[2J&`|%\n::error::"


def pair(key, verdict, error=0.5):
    record = Record(0, key, "forward", "output", "float32", (4, 10))
    stats = Stats(count=40, rel_l2=error)
    return Pair(key, record, record, stats=stats, noise=Noise(1e-7, "measured"), verdict=verdict, notes=[f"about {key}"])


def point(folder, name, line, code, **arguments):
    return Point(name, "conv2d", f"{folder / name}.py:{line}", code, [], arguments)


@pytest.fixture
def result(tmp_path):
    for name in ("reference", "candidate"):
        (tmp_path / f"{name}.py").write_text("".join(f"line_{n} = {n}\n" for n in range(1, 31)))
    reference, candidate = (point(tmp_path, n, 12, "line_12 = 12", exclusive=n == "candidate", size=3) for n in ("reference", "candidate"))
    fault = Divergence(reference, candidate, confirmed=True, what="different", rule="setting", error=0.5, noise=1e-7, error_after=1e-12)
    forward = StageResult("forward", DIVERGED, "float64", [pair("output", DIVERGED)], fault, [fault])
    backward = StageResult("backward", DIVERGED, "float64", findings=[Finding("update/decay", "decay 0.1", "set 0.01", proven=True)])
    failed = {"side": "candidate", "type": "KeyError", "message": HOSTILE, "frames": ["port.py:3 in f: x[1]"]}
    return CheckResult(
        [
            StageResult("weights", ALIGNED, "exact", [pair("a", ALIGNED, 0.0)], notes=["1 tensor"]),
            forward,
            backward,
            StageResult("metric", UNDERPOWERED, warnings=["too few"]),
            StageResult("loss", NOT_TESTED),
            StageResult("infer", ERROR, failure=failed),
        ],
        ["reference: torch"],
    )


PATCH = "--- a/port.py\n+++ b/port.py\n@@ -1 +1 @@\n-y = `x` * 0.1\n+y = x * 0.2\n"


@pytest.fixture
def patched(result, tmp_path):
    """The report of a stage with two points, which a proven edit at the first of them makes aligned."""
    stage = result.stages[1]
    first = stage.divergences[0]
    first.rule, first.notes = "repair/value", ["the reference goes on without this step"]
    stage.divergences.append(replace(first, candidate=point(tmp_path, "candidate", 20, "line_20 = 20"), rule="", confirmed=False))
    stage.findings.append(Finding("repair/value", "`0.1` here", "write `0.2` at candidate.py:12", True, 0.5, 0.0, PATCH))
    return told(result.to_dict(), root=tmp_path)


def test_a_proven_patch_is_shown_with_what_came_of_it_and_without_the_points_that_it_mends(patched):
    tried = "proven: with this changed the error goes from 0.5 to 0"
    forward = patched.stages[1]
    assert forward.mended
    assert forward.sentence == "`0.1` here; write `0.2` at candidate.py:12 (reference: reference.py:12)"
    for form in (markdown(patched), junit(patched)):
        assert tried in form
        assert "line_20" not in form
        assert "confirmed by" not in form
        assert "goes on without this step" not in form
    assert "```diff\n-y = `x` * 0.1\n+y = x * 0.2\n```" in markdown(patched)
    shown = html(Both(patched, patched))
    assert tried in shown
    assert "Further points; with the patch the stage is aligned" in shown


def test_a_patch_that_was_not_proven_hides_no_point(patched):
    forward = patched.stages[1]
    doubted = replace(forward, causes=tuple(replace(cause, proven=False) for cause in forward.causes))
    assert not doubted.mended
    assert len(doubted.starting) == 2
    assert "line_20" in markdown(replace(patched, stages=(doubted,)))


def test_markdown_is_in_the_language_that_is_asked_for_and_forms_for_programs_in_english(patched, result, tmp_path, capsys):
    (tmp_path / "report.json").write_text(result.to_json())
    for form, told_in_chinese in (("markdown", True), ("junit", False), ("github", False)):
        assert cli.main(["report", str(tmp_path), "--format", form, "--out", "-", "--lang", "zh"]) == 0
        text = capsys.readouterr().out
        assert any("\u4e00" <= letter <= "\u9fff" for letter in text) is told_in_chinese
        assert ("已证实的原因" in text) is told_in_chinese


def test_backquotes_of_a_patch_do_not_end_its_block(patched):
    forward = patched.stages[1]
    hostile = replace(forward, causes=tuple(replace(cause, patch=("+```", "+# heading")) for cause in forward.causes))
    assert "````diff\n+```\n+# heading\n````" in markdown(replace(patched, stages=(hostile,)))


def test_the_side_without_a_counterpart_stays_in_its_place_on_the_page(result, tmp_path):
    stage = result.stages[1]
    stage.divergences[0].reference = None
    report = told(result.to_dict(), root=tmp_path)
    shown = html(Both(report, report)).partition('<div class="panes">')[2]
    assert 0 < shown.index("no counterpart found") < shown.index("candidate.py:12")


def test_a_point_without_a_line_says_so_on_the_page(result, tmp_path):
    stage = result.stages[1]
    stage.divergences[0].reference = Point("fc", "Linear", None, None)
    report = told(result.to_dict(), root=tmp_path)
    assert "the line is not known" in html(Both(report, report))


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, False),
        ({"candidate": Point("logits")}, True),
        ({"candidate": Point("output", "conv2d")}, True),
        ({"notes": ["the reference's, flipped"]}, True),
        ({"confirmed": True}, True),
    ],
)
def test_a_point_that_only_names_the_value_of_the_sentence_is_left_out(change, shown):
    fault = replace(Divergence(Point("output"), Point("output")), **change)
    wrong = replace(pair("output", DIVERGED), notes=[])
    stage = StageResult("forward", DIVERGED, "float64", [wrong], fault, [fault])
    report = told(CheckResult([stage]).to_dict())
    assert bool(report.stages[0].faults) is shown
    assert ("a run" in markdown(report)) is shown
    assert "output differs by 0.5" in report.stages[0].sentence or shown


def test_further_lines_are_shown_with_their_code_unless_a_patch_mends_the_stage(result, tmp_path):
    forward = next(stage for stage in result.stages if stage.name == "forward")
    fault = forward.divergences[0]
    fault.candidate.lines += [f"{tmp_path}/candidate.py:20", f"{tmp_path}/gone.py:3", "no line", f"{tmp_path}/candidate.py:20"]
    known = result.to_dict()
    (first,) = next(stage for stage in told(known, root=tmp_path).stages if stage.name == "forward").faults
    assert [(each.shown, each.line) for each in first.further] == [("candidate.py", 20), ("gone.py", 3)]
    text = html(Both(told(known, root=tmp_path), told(known, root=tmp_path, language="zh")))
    assert '<code>candidate.py:20</code> <code class="dim">line_20 = 20</code>' in text
    assert "<code>gone.py:3</code></li>" in text
    assert "further lines, the likeliest first: candidate.py:20, gone.py:3" in markdown(told(known, root=tmp_path)).replace("\\", "")
    patch = "--- a/c.py\n+++ b/c.py\n@@ -1 +1 @@\n-x\n+y\n"
    forward.findings = [Finding(name, f"cause {name}", "fix", proven=True, patch=patch * (name == "a")) for name in "ab"]
    known = result.to_dict()
    text = html(Both(told(known, root=tmp_path), told(known, root=tmp_path, language="zh")))
    assert "candidate.py:20" not in text
    assert "Further causes; with the patch the stage is aligned" in text
    assert text.index("cause a") < text.index("Further causes") < text.index("cause b")


def test_the_sentence_of_a_stage_is_its_cause_or_its_line(result, tmp_path):
    report = told(result.to_dict(), root=tmp_path)
    sentences = {stage.name: stage.sentence for stage in report.stages}
    assert sentences["weights"] == ""
    assert sentences["forward"] == (
        "candidate (conv2d): right inputs, another result; exclusive=True here, False in the reference"
        " (candidate.py:12: line_12 = 12; reference: reference.py:12)"
    )
    assert sentences["backward"] == "decay 0.1; set 0.01"
    assert sentences["metric"] == "too few"
    assert sentences["loss"] == "nothing was compared"
    assert sentences["infer"].startswith("the candidate failed: KeyError: <img")
    assert report.headline == f"infer: {sentences['infer']}"


def test_a_value_is_told_with_the_references_and_the_line_that_it_comes_from(result, tmp_path):
    value = TracedValue(1e-5, 0.001, f"{tmp_path}/reference.py:3", "line_3 = 3")
    result.stages[1].divergence.value = value
    (fault,) = told(result.to_dict(), root=tmp_path).stages[1].faults
    assert (fault.value.candidate, fault.value.reference) == (1e-5, 0.001)
    assert (fault.reference.shown, fault.reference.line, fault.reference.code) == ("reference.py", 3, "line_3 = 3")
    assert "; 1e-05 here, 0.001 in the reference (" in told(result.to_dict(), root=tmp_path).stages[1].sentence


def test_values_that_are_not_finite_are_read_again(result):
    result.stages[1].divergence.value = TracedValue(float("inf"), 1.0)
    assert "; inf here, 1 in the reference" in told(result.to_dict()).stages[1].sentence


def test_a_place_stands_behind_a_cause_and_behind_a_value_that_differs(result, tmp_path):
    found = result.stages[1].divergence
    found.what, found.notes = "", ["the value comes from here"]
    place = "candidate.py:12: line_12 = 12; reference: reference.py:12"
    sentence = told(result.to_dict(), root=tmp_path).stages[1].sentence
    assert sentence == f"output differs by 0.5 (about output); the value comes from here ({place})"
    result.stages[1].findings = [Finding("data/order", "in another order", "sort them")]
    assert told(result.to_dict(), root=tmp_path).stages[1].sentence == f"perhaps in another order; sort them ({place})"


def test_junit_counts_every_verdict_and_only_aligned_passes(result):
    suite = ET.fromstring(junit(told(result.to_dict()), "port")).find("testsuite")
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "3",
        "errors": "1",
        "skipped": "1",
    }
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "weights": ["system-out"],
        "forward": ["failure"],
        "backward": ["failure"],
        "metric": ["failure"],
        "loss": ["skipped"],
        "infer": ["error"],
    }


def test_what_the_sentence_of_a_stage_says_is_not_said_again(result):
    result.stages[3].warnings.append("too many")
    result.stages[4].notes += ["neither side has loss(outputs, labels)", "a note"]
    report = told(result.to_dict())
    written = junit(report, "port"), markdown(report), html(Both(report, told(result.to_dict(), language="zh")))
    assert [text.count("too few") for text in written[:2]] == [2, 1]  # of JUnit as an attribute and a text
    assert all("too many" in text for text in written)
    assert re.search(r"<h3>.{0,80}</h3><ul>(?:(?!</ul>).)*too few", written[2]) is None
    assert re.search(r"<h3>.{0,80}</h3><ul>(?:(?!</ul>).)*too many", written[2])
    assert re.search(r"<ul class=\"dim\">(?:(?!</ul>).)*a note", written[2])


def test_sarif_has_the_lines_of_both_sides_relative_to_the_root(result, tmp_path):
    run = json.loads(sarif(told(result.to_dict()), tmp_path))["runs"][0]
    first = run["results"][0]
    assert first["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "candidate.py"}, "region": {"startLine": 12}}
    assert first["relatedLocations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "reference.py"}
    assert [r["level"] for r in run["results"]] == ["error", "error", "warning", "warning", "error"]
    assert {r["ruleId"] for r in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_names_that_an_address_cannot_hold_are_quoted(result):
    point_ = result.stages[1].divergence.candidate
    point_.source = "/x/my port/50%#.py:3"
    (first, *_) = json.loads(sarif(told(result.to_dict()), Path("/x")))["runs"][0]["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20port/50%25%23.py"
    assert "file=my port/50%25#.py" in remarks(told(result.to_dict()), Path("/x"))


def test_remarks_are_one_line_each_whatever_a_message_holds(result, tmp_path):
    lines = remarks(told(result.to_dict(), root=tmp_path), tmp_path).splitlines()
    assert lines[0].startswith("::error file=candidate.py,line=12,title=paralign forward diverged::candidate (conv2d): right inputs")
    assert len(lines) == 5
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)


def test_markdown_shows_text_as_text(result, tmp_path):
    text = markdown(told(result.to_dict(), root=tmp_path))
    assert text.startswith("## 💥 paralign: error")
    assert "candidate.py:12 `line_12 = 12`" in text
    assert not re.search(r"(?<!\\)<img", text)
    assert text.count("\n| ") == 7


def both(result, root=None):
    return Both(told(result.to_dict(), root=root), told(result.to_dict(), root=root, language="zh"))


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.tables = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "details" and given.get("class") == "values":
            raw = base64.b64decode(given["data-rows"])
            self.tables.append(json.loads(zlib.decompress(raw) if given["data-packed"] == "yes" else raw)["rows"])

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_shows_both_lines_and_runs_nothing_that_a_report_says(result, tmp_path):
    result.stages[1].pairs.append(pair(HOSTILE, ALIGNED))
    page = Page(html(both(result, root=tmp_path), title=HOSTILE))
    text = " ".join(page.texts)
    assert {"img", "iframe", "link", "object"}.isdisjoint(page.tags)
    assert page.tags.count("script") == 1
    assert "line_7 = 7" in text
    assert "line_17 = 17" in text
    assert "exclusive=True" in text
    assert "size=3" not in text
    assert "\x1b" not in text
    assert page.tables[1][1][0].startswith("<img src=x")
    assert "http" not in " ".join(page.texts).replace("http://www.w3.org/2000/svg", "")  # the name of a kind of markup


def test_every_stage_stands_in_a_row_above_all_else_with_its_verdict_in_words(result, tmp_path):
    shown = html(both(result, root=tmp_path))
    row = shown[shown.index('<nav class="strip"') : shown.index("</nav>")]
    assert shown.index("</nav>") < shown.index('class="headline')
    text = " ".join(" ".join(Page(row).texts).split())
    for said in (
        "✓ weights aligned",
        "✗ forward diverged",
        "~ metric underpowered",
        "- loss not tested",
        "! infer error",
        "- data not run",
    ):
        assert said in text
    assert 'href="#stage-2"' in row
    assert text.index("- data not run") < text.index("~ metric") < text.index("- loss not tested") < text.index("✗ backward")


@pytest.mark.parametrize(
    ("frames", "shown", "hidden"),
    [
        (["{}/reference.py:3 in main: line_3 = 3", "{}/candidate.py:12 in inner: line_12 = 12"], ["line_7 = 7", "line_17 = 17", "line_3 = 3", "called from"], []),
        (["{}/candidate.py:12", "    line_12 = 12", "    ^"], ["line_17 = 17"], ["called from"]),
        (["/elsewhere/gone.py:4 in f: y = x"], ["y = x"], []),
    ],
    ids=["called", "no Python", "gone"],
)  # fmt: skip
def test_where_a_side_failed_is_shown_with_its_code_where_nothing_was_located(result, tmp_path, frames, shown, hidden):
    failed = result.stages[-1]
    failed.failure["frames"] = [each.format(tmp_path) for each in frames]
    assert 'data-en="Where it failed"' not in html(both(result, root=tmp_path))  # the first wrong line comes first
    result.stages = [result.stages[0], failed]
    page = html(both(result, root=tmp_path))
    start = page.index('data-en="Where it failed"')
    text = "".join(Page(page[start : page.index("</section>", start)]).texts)
    for each in shown:
        assert each in text
    for each in hidden:
        assert each not in text
    if len(frames) == 2:
        assert text.index("line_12 = 12") < text.index("called from") < text.index("line_3 = 3")


def test_the_code_of_a_file_that_is_no_python_is_no_place(result):
    result.stages[-1].failure["frames"] = ["port.py:3 in main: import part", "part.py:12", "    y = (x[1:5", "         ^"]
    raised = told(result.to_dict()).stages[-1].raised
    assert [(place.file, place.line, place.code) for place in raised] == [("part.py", 12, "y = (x[1:5"), ("port.py", 3, "import part")]


def test_a_message_of_several_lines_is_one_line_of_the_headline(result, tmp_path):
    result.stages[-1].failure["message"] = "no good:\n  [Hint: other]\n"
    report = told(result.to_dict(), root=tmp_path)
    assert report.stages[-1].sentence == "the candidate failed: KeyError: no good: [Hint: other]"


def test_a_long_line_of_code_does_not_fill_a_sentence(result, tmp_path):
    stage = result.stages[1]
    stage.divergences[0].candidate.code = "f(" + "x, " * 200 + "y)"
    sentence = told(result.to_dict(), root=tmp_path).stages[1].sentence
    assert "…" in sentence
    assert sentence.endswith("reference: reference.py:12)")


def test_the_page_of_ten_thousand_values_is_small(result):
    result.stages[1].pairs = [pair(f"layer.{n}.weight", DIVERGED if n % 7 == 0 else ALIGNED, n / 1e4) for n in range(10_000)]
    text = html(both(result))
    assert len(text) < 1_000_000
    rows = next(table for table in Page(text).tables if len(table) == 10_000)
    assert rows[0][1] == DIVERGED
    assert rows[-1][1] == ALIGNED


def test_code_that_has_changed_since_is_not_shown_around_the_line(result, tmp_path):
    (tmp_path / "candidate.py").write_text("unrelated = 0\n" * 30)
    text = " ".join(Page(html(both(result))).texts)
    assert "unrelated" not in text
    assert "line_12 = 12" in text


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here: the page was not opened in a browser")
def test_a_browser_shows_the_page_without_errors(result, tmp_path):
    result.stages[1].pairs += [pair(f"{HOSTILE} {n}", ALIGNED) for n in range(300)]
    (tmp_path / "report.html").write_text(html(both(result), language="zh"), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=3000"]
    page = (tmp_path / "report.html").as_uri()
    done = subprocess.run([*command, "--dump-dom", f"{page}#values-2"], capture_output=True, text=True, timeout=120, check=False)
    assert "CONSOLE" not in done.stderr, done.stderr
    shown = Page(done.stdout)
    assert "img" not in shown.tags
    assert sum("onerror" in text for text in shown.texts) >= 100  # rows of the table, made from packed data
    assert "不一致" in done.stdout


def write(folder, result):
    (folder / "result").mkdir()
    (folder / "result" / "report.json").write_text(result.to_json(), encoding="utf-8")
    return folder / "result"


@pytest.mark.parametrize("form", ["html", "markdown", "junit", "sarif"])
def test_the_command_writes_beside_the_report(result, tmp_path, capsys, form):
    folder = write(tmp_path, result)
    assert cli.main(["report", str(folder), "--format", form]) == 0
    file = capsys.readouterr().out.strip()
    assert (folder / file.rpartition("/")[2]).stat().st_size > 500


def test_the_command_takes_the_folder_of_a_project_too(result, tmp_path, capsys):
    write(tmp_path, result)
    assert cli.main(["report", str(tmp_path), "--format", "markdown", "--out", "-"]) == 0
    assert capsys.readouterr().out.startswith("## ")


def test_the_command_prints_remarks(result, tmp_path, capsys):
    assert cli.main(["report", str(write(tmp_path, result) / "report.json"), "--format", "github", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("::error file=candidate.py,line=12,")


@pytest.mark.parametrize(
    ("text", "told_"),
    [
        ("{", "is no JSON"),
        ("[]", "no list of stages"),
        ('{"schema": 9, "stages": []}', "schema 9"),
        ('{"schema": 1, "verdict": "fine", "stages": []}', "damaged"),
        ('{"schema": 1, "verdict": "aligned", "stages": [{"name": "a"}]}', "damaged"),
        ('{"schema": 1, "verdict": "aligned", "stages": [3]}', "damaged"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_damaged_report_is_refused_in_one_line(tmp_path, capsys, text, told_):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(CaptureFormatError, match=told_):
        read(tmp_path)
    assert cli.main(["report", str(tmp_path)]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_no_report_is_a_matter_of_usage(tmp_path):
    with pytest.raises(UsageError, match="there is no report"):
        read(tmp_path)


def test_a_point_without_an_operation_is_told_by_its_note(tmp_path):
    note = f"its modules work as they should, after 'norm' ({tmp_path}/candidate.py:13)"
    wrong = pair("output", DIVERGED, 0.5)
    wrong.notes = [note]
    fault = Divergence(Point("", "Net"), Point("", "Net"), pair=wrong)
    known = CheckResult([StageResult("forward", DIVERGED, "float64", [wrong], fault, [fault])]).to_dict()
    stage = told(known, root=tmp_path).stages[0]
    assert stage.sentence == "its modules work as they should, after 'norm' (candidate.py:13)"
    assert stage.faults[0].notes == (stage.sentence,)


def test_of_operations_that_are_called_alike_the_one_of_the_faults_line_is_marked():
    rows = [["", "Net", "cat", f"net.py:{line}", "2 x 3", state, 0, 0.1, 0.1] for line, state in ((3, "wrong"), (5, "right"), (7, "wrong"))]
    place = Place("candidate", "net.py", "net.py", 5, "", "cat (Net)", "")
    assert page._row_of(rows, place) == 1
    assert page._row_of(rows, replace(place, line=9)) == 0
    assert page._row_of(rows, replace(place, operation="add")) == -1
    assert page._row_of(rows, None) == -1


def test_causes_show_paths_from_the_project_and_methods_are_read_in_chinese(tmp_path):
    cause = f"a (dropout) {tmp_path}/port/net.py:3 is random; the reference has no random operation there ({tmp_path}/paper/net.py:4)"
    found = Finding("random operation", cause, "remove it", proven=True)
    known = CheckResult([StageResult("init", DIVERGED, "laws of drawn values", findings=[found])]).to_dict()
    (stage,) = told(known, root=tmp_path / "port").stages
    assert stage.causes[0].cause == "a (dropout) net.py:3 is random; the reference has no random operation there (../paper/net.py:4)"
    text = html(Both(told(known), told(known, language="zh")), title="port")
    assert 'data-en="laws of drawn values" data-zh="随机初始化的分布"' in text
