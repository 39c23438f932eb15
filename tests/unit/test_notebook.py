"""Results in a notebook: escaped, in bounds, the lines of a fault, progress; a notebook is run where nbclient is installed."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from paralign import api  # noqa: F401 - gives results their HTML
from paralign.model import DIVERGED, CheckResult, Divergence, Finding, Pair, Point, StageResult
from paralign.report import notebook
from paralign.report.language import speaking

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"


def result():
    point = Point(HOSTILE, op="relu", source="net.py:3", code=f"x = '{HOSTILE}'")
    stage = StageResult(
        "forward",
        DIVERGED,
        pairs=[Pair(HOSTILE, None, None, verdict=DIVERGED)],
        divergences=[Divergence(point, point, what="different") for _ in range(9)],
        findings=[Finding("a/b", HOSTILE, HOSTILE * 100) for _ in range(9)],
        warnings=[HOSTILE],
    )
    return CheckResult([stage, StageResult(HOSTILE, "not tested")])


def test_nothing_of_a_report_is_markup_and_all_is_in_bounds():
    html = result()._repr_html_()
    assert "<img" not in html
    assert "\x1b" not in html
    assert set(re.findall(r"</?(\w+)", html)) <= {"div", "p", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code"}
    assert len(html) < 20_000
    assert "&lt;img src=x onerror=alert(1)&gt;\\u001b[2J" in html
    assert "net.py:3" in html
    assert "12 more in the report" in html


def test_a_result_is_short_as_text_too():
    many = CheckResult([StageResult("forward", DIVERGED, pairs=[Pair(f"p{n}", None, None) for n in range(5000)])])
    assert repr(many) == "CheckResult(diverged: forward diverged)"
    assert len(many._repr_html_()) < 5000
    assert repr(CheckResult()) == "CheckResult(not tested)"


PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def example():
    return PAGE.read_text().partition("## In a notebook")[2].partition("```python\n")[2].partition("```")[0]


def test_a_check_from_python_shows_itself():
    *lines, last = example().strip().split("\n")
    space = {}
    exec("\n".join(lines), space)
    html = eval(last, space)._repr_html_()
    assert "aligned" in html
    assert html.count("<tr>") == 2


@pytest.fixture
def cell(monkeypatch):
    """What a cell shows, one text after the other."""
    shown = []
    line = SimpleNamespace(update=shown.append)
    fake = SimpleNamespace(display=lambda first, **_: shown.append(first) or line, HTML=str)
    monkeypatch.setattr(notebook, "_display", lambda: fake)
    return shown


def test_progress_goes_to_the_cell_and_goes_away(cell):
    with notebook.under_way() as told:
        told("forward <b>")
    assert cell == ["", "<i>forward &lt;b&gt; … 0 s</i>", ""]
    own = []
    with notebook.under_way(own.append) as told:
        told("forward")
    assert own == ["forward"]
    assert len(cell) == 3


def test_the_bar_shows_how_many_of_the_stages_are_done(cell):
    with notebook.under_way(steps=["forward", "loss", "backward"]) as told:
        for step in ("starting both sides", "forward", "backward", "repair: backward"):
            told(step)
    bars = [re.search("max='(.)' value='(.)'", text).groups() for text in cell[1:-1]]
    assert bars == [("3", "0"), ("3", "0"), ("3", "2"), ("3", "2")]


def test_the_clock_of_a_long_stage_runs_and_stops_with_it(cell, monkeypatch):
    monkeypatch.setattr(notebook, "TICK", 0.02)
    with notebook.under_way() as told:
        told("forward")
        until = time.monotonic() + 10
        while len(cell) < 5 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(cell) >= 5
    assert cell[-1] == ""
    told("afterwards")
    ended = len(cell)
    time.sleep(0.2)
    assert len(cell) == ended
    assert cell[-1] == ""


def test_the_line_of_a_check_that_fails_goes_away(cell):
    def failing():
        with notebook.under_way() as told:
            told("forward")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        failing()
    assert cell[-1] == ""


def test_a_cell_speaks_chinese(cell, monkeypatch):
    monkeypatch.setattr(notebook, "TICK", 0.02)
    with speaking("zh"):
        with notebook.under_way() as told:
            told("starting both sides")
            until = time.monotonic() + 10
            while len(cell) < 3 and time.monotonic() < until:
                time.sleep(0.01)
        html = result()._repr_html_()
    assert set(cell[1:-1]) == {"<i>启动两侧 … 0 秒</i>"}
    assert len(cell) > 3
    assert "可能的原因" in html
    assert "其余 12 项见报告" in html
    assert "more in the report" not in html


def test_outside_of_a_notebook_nothing_is_shown(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook._display() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=SimpleNamespace))
    assert notebook._display() is None  # a terminal's IPython has no kernel
    with notebook.under_way() as told:
        told("forward")


@pytest.mark.filterwarnings("ignore")
def test_in_a_real_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="a notebook is run where nbclient and ipykernel are installed")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(example().strip())])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = book.cells[0].outputs
    shown = next(out for out in outputs if out.output_type == "execute_result")
    assert "aligned" in shown.data["text/html"]
    assert shown.data["text/plain"] == "CheckResult(aligned: forward aligned)"
    (line,) = [out for out in outputs if out.output_type == "display_data"]  # one line, drawn anew; it is empty in the end
    assert line.data["text/html"] == ""
    assert not [out for out in outputs if out.output_type == "stream"]
