"""A sweep as people and servers of continuous integration read it.

A table, JUnit XML with a suite for each port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from paralign.errors import one_line, plain_text
from paralign.model import DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.report.junit import ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from paralign.sweeping.one_port import Outcome


def table(outcomes: Sequence[Outcome]) -> Table:
    """One line a port."""
    from rich.table import Table
    from rich.text import Text

    from paralign.report.language import say
    from paralign.report.text import STYLE

    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in (say("port"), say("verdict"), say("seconds"), say("memory"), say("stages that are not aligned"), say("said")):
        shown.add_column(name, overflow="fold")
    for outcome in outcomes:
        wrong = ", ".join(
            f"{name} {say(verdict)}" for name, verdict in outcome.stages.items() if verdict in (DIVERGED, UNDERPOWERED, ERROR)
        )
        seconds = say("from before") if outcome.reused else f"{outcome.seconds:.1f}"
        shown.add_row(
            Text(outcome.name),
            Text(say(outcome.verdict), STYLE[outcome.verdict]),
            seconds,
            f"{outcome.peak_bytes / 1e9:.1f} GB" if outcome.peak_bytes else "",
            Text(wrong),
            Text(one_line(outcome.failure or outcome.headline)),
        )
    return shown


def junit(outcomes: Sequence[Outcome]) -> str:
    """A test suite for each port and a test case for each stage.

    A port without a report is one case with an error.
    """
    root = ET.Element("testsuites")
    for outcome in outcomes:
        stages = outcome.stages or {"check": ERROR}
        counts = {kind: sum(ELEMENTS.get(verdict) == kind for verdict in stages.values()) for kind in ("failure", "error", "skipped")}
        suite = ET.SubElement(
            root,
            "testsuite",
            name=outcome.name,
            tests=str(len(stages)),
            failures=str(counts["failure"]),
            errors=str(counts["error"]),
            skipped=str(counts["skipped"]),
            time=f"{outcome.seconds:.3f}",
        )
        for name, verdict in stages.items():
            case = ET.SubElement(suite, "testcase", classname=outcome.name, name=name)
            if verdict in ELEMENTS:
                told = outcome.failure or (outcome.headline if verdict != NOT_TESTED else verdict)
                ET.SubElement(case, ELEMENTS[verdict], type=verdict, message=plain_text(one_line(told)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
