"""The page in a real browser: what a reader clicks, types and presses does what it says, and nothing of a report runs."""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from browser import CHROMIUM, Browser

from paralign.model import ALIGNED, DIVERGED, CheckResult, Divergence, Finding, Noise, Pair, Point, Record, StageResult, Stats
from paralign.report.page import Both, html
from paralign.report.told import told

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")

#: a name that would run, were it ever markup, and one that a terminal would obey
HOSTILE = "<img src=x onerror=\"document.title='run'\">\x1b[31m</script><script>document.title='run'</script>{{7*7}}"

#: blocks of the model that is drawn: all alike but one
BLOCKS = 8


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


def pair(key, verdict=ALIGNED, notes=()):
    record = Record(0, key, "forward", "output", "float32", (4, 10))
    found = Pair(key, record, record, stats=Stats(count=40, rel_l2=0.5), noise=Noise(1e-7, "measured"), verdict=verdict)
    found.notes = list(notes)
    return found


def operations():
    rows = []
    for block in range(BLOCKS):
        state = "wrong" if block == BLOCKS - 1 else "right"
        rows += [
            [f"layers.{block}.conv", "Conv2d", "aten.convolution.default", f"net.py:{block}", "4 x 8", "right", 2 * block, 1e-9, 1e-7],
            [f"layers.{block}.act", "GELU", "aten.gelu.default", f"net.py:{block}", "4 x 8", state, 2 * block + 1, 1e-2, 1e-7],
        ]
    return rows


def figures(rows):
    tensor = {"key": HOSTILE, "from": -1.0, "to": 1.0, "counts": [[1, 5, 2], [2, 4, 2]], "missing": [0, 1], "most": 0.5, "at": [1, 2]}
    more = {"axes": [{"name": "batch", "length": 2, "values": [0.1, 0.5]}], "map": {"shape": [2, 2], "cells": [[0.1, 0.2], [0.3, 0.5]]}}
    curve = {"name": HOSTILE, "reference": [[0, 1.0], [1, 0.5]], "candidate": [[0, 1.0], [1, 0.6]]}
    sides = {"reference": rows, "candidate": rows}
    return {"operations": sides, "stages": {"forward": {"tensors": [{**tensor, **more}], "curves": [curve]}}}


def report(tmp_path, pairs, rows=None, name="port"):
    point = Point("layers.7.act", "aten.gelu.default (GELU)", "net.py:3", f"x = gelu(x)  # {HOSTILE}")
    fault = Divergence(point, point, confirmed=True, what="different", error=0.5, noise=1e-7)
    finding = Finding(
        "catalogue/avg-pool2d-padding", "a cause", "a fix", proven=True, patch=f"--- a\n+++ b\n-gelu(x)\n+gelu(x) # {HOSTILE}\n"
    )
    stages = [
        StageResult("weights", ALIGNED, pairs=[pair("0.weight")]),
        StageResult("forward", DIVERGED, "float64", pairs, fault, [fault], findings=[finding], warnings=[HOSTILE]),
    ]
    known = CheckResult(stages, ["reference: torch"], command="paralign check port").to_dict()
    text = html(Both(told(known), told(known, language="zh")), title=name, figures=figures(rows or operations()))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    return (tmp_path / "report.html").as_uri()


def test_nothing_of_a_report_runs_and_nothing_is_asked_for(browser, tmp_path):
    browser.open(report(tmp_path, [pair(HOSTILE, DIVERGED, [HOSTILE])], [[HOSTILE, *row[1:]] for row in operations()], HOSTILE))
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.run("document.querySelector('section.operations').scrollIntoView()")
    browser.until("document.querySelectorAll('.tree summary').length > 0 && document.querySelectorAll('.drawn').length > 3")
    browser.run("document.querySelector('section.operations .only').click()")
    browser.until("document.querySelectorAll('.op').length > 0")
    browser.run("document.getElementById('language').click()")
    assert browser.run("document.title").startswith("<img")
    assert browser.run("document.querySelectorAll('img, iframe, object, script').length") == 1  # the page's own script
    assert browser.run("document.body.textContent.includes('{{7*7}}')")
    assert browser.complaints == []
    assert all(url.startswith("file:") for url in browser.requests)


def test_a_complaint_would_be_seen(browser, tmp_path):
    browser.open(report(tmp_path, [pair("a")]))
    browser.run("setTimeout(() => { throw new Error('planted') }), console.log('planted')")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert len(browser.complaints) == 2


def test_language_and_theme_change_the_whole_page(browser, tmp_path):
    browser.open(report(tmp_path, [pair("a", DIVERGED, ["NaN at the same 1 place of both"])]))
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.until("document.querySelectorAll('details.values[open] tbody tr').length >= 2")
    before = browser.run("getComputedStyle(document.body).backgroundColor")
    assert "first wrong line" in browser.run("document.body.innerText")
    browser.run("document.getElementById('language').click()")
    text = browser.run("document.body.innerText")
    assert browser.run("document.documentElement.lang") == "zh"
    for part in ("第一处出错的代码", "求平均时不计入填充的零", "误差 0.5，为噪声的", "处为 NaN", "已证实的原因"):
        assert part in text
    assert "times its noise" not in text
    assert "NaN at the same" not in text
    browser.run("document.getElementById('language').click()")
    assert "times its noise" in browser.run("document.body.innerText")
    browser.run("document.getElementById('theme').click()")
    assert browser.run("getComputedStyle(document.body).backgroundColor") != before


def test_the_page_is_used_by_keys_alone(browser, tmp_path):
    browser.open(report(tmp_path, [pair(f"layer.{n}.weight", DIVERGED if n == 7 else ALIGNED) for n in range(50)]))
    browser.press("Tab", "Tab")
    assert browser.run("document.activeElement.id") == "language"
    browser.press("Enter")
    assert browser.run("document.documentElement.lang") == "zh"
    for _ in range(60):
        if browser.run("document.activeElement.closest('details.values') !== null && document.activeElement.tagName === 'SUMMARY'"):
            break
        browser.press("Tab")
    browser.press("Enter")
    browser.until("document.querySelectorAll('details.values[open] tbody tr').length === 50")
    browser.press("/")
    assert browser.run("document.activeElement.className") == "search"
    browser.press(*"r.7.")
    browser.until("document.querySelectorAll('details.values[open] tbody tr').length === 1")
    browser.press("Escape")
    browser.until("document.querySelectorAll('details.values[open] tbody tr').length === 50")


def test_both_trees_lead_to_each_other(browser, tmp_path):
    browser.open(report(tmp_path, [pair("a", DIVERGED)]))
    browser.run("document.querySelector('section.operations').scrollIntoView()")
    browser.until("document.querySelectorAll('.op.chosen').length === 2")  # what is guilty stands open
    assert "gelu" in browser.run("document.querySelector('[data-side=candidate] .chosen').textContent")
    text = browser.run("document.querySelector('[data-side=candidate]').innerText")
    assert "0 … 6" in text  # the seven blocks that are alike
    browser.run("document.querySelector('section.operations .search').value = 'layers.2.conv'")
    browser.run("document.querySelector('section.operations .search').dispatchEvent(new Event('input'))")
    browser.until("document.querySelectorAll('.op').length === 2")
    browser.run("document.querySelector('section.operations .search').value = ''")
    browser.run("document.querySelector('section.operations .search').dispatchEvent(new Event('input'))")
    browser.run("document.querySelector('section.operations .only').click()")
    browser.until("document.querySelectorAll('.op').length === 2")
    browser.run("document.querySelector('section.operations .only').click()")
    opened = "for (const each of document.querySelectorAll('[data-side=reference] details')) each.open = true"
    browser.until(f"(() => {{ {opened}; return document.querySelectorAll('[data-side=reference] .op').length === 16 }})()")
    browser.run("document.querySelector('[data-side=reference] [data-number=\"4\"]').click()")
    browser.until("document.querySelector('[data-side=candidate] .chosen')?.dataset.number === '4'")
    assert browser.complaints == []


@pytest.mark.parametrize("width", [360, 800])
def test_narrow_windows_do_not_scroll_sideways(browser, tmp_path, width):
    browser.open(report(tmp_path, [pair("a" * 200, DIVERGED)]), width=width)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.run("document.querySelector('section.operations').scrollIntoView()")
    browser.until("document.querySelectorAll('.op').length > 0")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_no_line_of_code_is_cut_at_the_panes_edge(browser, tmp_path):
    """The lines around the first wrong one may hold the cause."""
    browser.open(report(tmp_path, [pair("a", DIVERGED)]), width=1000)
    pane = "document.querySelector('.panes pre')"
    browser.run(f"{pane}.firstElementChild.append(' '.repeat(8) + 'word '.repeat(99))")
    browser.run(f"{pane}.firstElementChild.classList.remove('guilty')")
    assert browser.run(f"{pane}.scrollWidth <= {pane}.clientWidth")


def test_ten_thousand_values_and_operations_stay_responsive(browser, tmp_path):
    rows = [[f"stage.{n // 100}.{n % 100}", "Linear", "linear", f"net.py:{n}", "4", "right", n, 1e-9, 1e-7] for n in range(10_000)]
    page = report(tmp_path, [pair(f"layer.{n}.weight", DIVERGED if n % 7 == 0 else ALIGNED) for n in range(10_000)], rows)
    assert (tmp_path / "report.html").stat().st_size < 6_000_000
    browser.open(page)
    browser.run("document.querySelectorAll('details.values')[1].open = true")
    browser.until("document.querySelectorAll('details.values')[1].querySelectorAll('tbody tr').length >= 50")
    browser.run("document.querySelector('section.operations').scrollIntoView()")
    browser.until("document.querySelectorAll('.tree summary').length > 0")
    typed = """(() => { const box = document.querySelectorAll('%s')[%d]; box.value = '77'; const began = performance.now();
        box.dispatchEvent(new Event('input')); document.body.offsetHeight; return performance.now() - began; })()"""
    spent = [browser.run(typed % ("details.values .search", 1)), browser.run(typed % ("section.operations .search", 0))]
    assert max(spent) < 1000  # a tenth of that on a machine that does nothing else: `make page` measures it
    assert browser.run("document.querySelectorAll('details.values')[1].querySelector('.count').textContent").endswith(
        f"/ {sum('77' in str(n) for n in range(10_000))}"
    )
    assert browser.complaints == []


def test_printed_pages_have_no_buttons_and_keep_their_code(browser, tmp_path):
    browser.open(report(tmp_path, [pair("a", DIVERGED)]))
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert browser.run("getComputedStyle(document.querySelector('pre .line')).whiteSpace") == "pre-wrap"
    browser.call("Emulation.setEmulatedMedia", media="")
