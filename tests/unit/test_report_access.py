"""The page for people who do not see it, or not well: contrast in both themes, names, order; axe-core where `make axe` brings it."""

from __future__ import annotations

import html as markup
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, CheckResult, Divergence, Finding, Noise, Pair, Point, Record, StageResult, Stats
from paralign.report.page import Both, html
from paralign.report.told import told

#: WCAG 2.2, 1.4.3 (AA): text of usual size
ENOUGH = 4.5

#: what a check's captures give to be drawn
FIGURES = {
    "operations": {
        side: [
            ["conv", "Conv2d", "conv2d", "net.py:3", "4 x 10", "wrong", 0, 0.5, 1e-7],
            ["head", "Linear", "linear", "", "4", "right", 1, 0.0, 1e-7],
        ]
        for side in ("reference", "candidate")
    },
    "stages": {
        "forward": {
            "tensors": [
                {
                    "key": "output",
                    "from": 0.0,
                    "to": 1.0,
                    "counts": [[1, 2], [2, 1]],
                    "missing": [0, 1],
                    "most": 0.5,
                    "at": [1, 2],
                    "axes": [{"name": "batch", "length": 2, "values": [0.1, 0.5]}],
                    "map": {"shape": [2, 2], "cells": [[0.1, 0.2], [0.3, 0.5]]},
                }
            ],
            "curves": [{"name": "loss", "reference": [[0, 1.0], [1, 0.5]], "candidate": [[0, 1.0], [1, 0.6]]}],
        }
    },
}

#: what is written on what
ON = [("fg", "bg"), ("fg", "card"), ("fg", "mark"), ("dim", "bg"), ("dim", "card"), ("dim", "mark"), ("good", "goodbg"), ("bad", "badbg"), ("weak", "weakbg"), ("link", "bg")]  # fmt: skip


@pytest.fixture(scope="module")
def page():
    record = Record(0, "output", "forward", "output", "float32", (4, 10))
    pairs = [
        Pair(f"p{n}", record, record, stats=Stats(count=40, rel_l2=0.5), noise=Noise(1e-7, "measured"), verdict=DIVERGED) for n in range(5)
    ]
    point = Point("conv", "conv2d", "net.py:3", "x = conv(x)")
    fault = Divergence(point, point, confirmed=True, what="different", error=0.5, noise=1e-7)
    finding = Finding("a/b", "a cause", "a fix", proven=True)
    stages = [
        StageResult("weights", ALIGNED),
        StageResult("forward", DIVERGED, "float64", pairs, fault, [fault, fault], findings=[finding], warnings=["a warning"]),
        StageResult("loss", NOT_TESTED, notes=["a note"]),
    ]
    report = CheckResult(stages, ["reference: torch"], command="paralign check port").to_dict()
    return html(Both(told(report), told(report, language="zh")), title="port", figures=FIGURES)


def themes(page):
    """Name -> colours of each theme: the light one first, then what replaces them in the dark."""
    blocks = re.findall(r":root([^{]*)\{([^}]*--[^}]*)\}", page)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]+)", colours)) for _, colours in blocks]


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_as_wcag_says():
    assert contrast("#000", "#fff") == pytest.approx(21)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)


def test_text_can_be_read_in_both_themes(page):
    found = themes(page)
    assert len(found) == 3
    for colours in found:
        low = {(text, ground): contrast(colours[text], colours[ground]) for text, ground in ON}
        assert {pair: value for pair, value in low.items() if value < ENOUGH} == {}


class Outline(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.labelled = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "input":
            self.labelled.append("label" in self.open or "aria-label" in attributes)
        if tag not in ("meta", "input", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass


def test_the_page_has_names_and_an_order(page):
    outline = Outline(page)
    tags = outline.tags
    assert dict(tags)["html"]["lang"] == "en"
    assert [tag for tag, _ in tags].count("main") == 1
    assert outline.labelled
    assert all(outline.labelled)
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all("scope" in attributes for tag, attributes in tags if tag == "th")
    assert all(attributes.get("tabindex") == "0" for _, attributes in tags if attributes.get("class") == "scroll")
    names = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(names) == len(set(names))
    assert all(attributes["aria-labelledby"] in names for _, attributes in tags if "aria-labelledby" in attributes)


AXE = Path(os.environ.get("PARALIGN_AXE", Path(__file__).parents[2] / ".venv-axe" / "node_modules" / "axe-core" / "axe.min.js"))

RUN = """<script>%s</script><script>
root.dataset.theme = "%s"; say("%s"); for (const each of document.querySelectorAll("details")) each.open = true;
scrollTo(0, 1e6); setTimeout(() => axe.run(document).then(found => {
  const out = document.createElement("pre"); out.id = "found";
  out.textContent = JSON.stringify({passed: found.passes.length, wrong: found.violations.map(each => [each.id, each.impact, each.nodes[0].html])});
  document.body.append(out);
}), 500);
</script></body>"""


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here: make axe")
@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
@pytest.mark.parametrize(("theme", "language", "planted"), [("light", "en", False), ("dark", "zh", False), ("light", "en", True)])
def test_axe_finds_nothing(page, tmp_path, theme, language, planted):
    text = page.replace("<main>", "<main><img src='data:,'>") if planted else page
    script = RUN % (AXE.read_text().replace("</script>", "<\\/script>"), theme, language)
    (tmp_path / "page.html").write_text(text.replace("</body>", script))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(markup.unescape(re.search(r'id="found">(.*?)</pre>', done.stdout, re.DOTALL).group(1)))
    assert found["passed"] > 10
    assert [rule for rule, *_ in found["wrong"]] == (["image-alt"] if planted else [])
