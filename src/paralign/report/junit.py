"""A report as JUnit XML, a test case a stage, for continuous integration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED
from paralign.report.told import where

if TYPE_CHECKING:
    from paralign.report.told import StageTold, Told

#: verdict -> the element that says so; underpowered is no pass: a test that concludes nothing must not be green
ELEMENTS = {DIVERGED: "failure", UNDERPOWERED: "failure", ERROR: "error", NOT_TESTED: "skipped"}

#: what XML 1.0 cannot hold, however it is escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Told, name: str = "paralign") -> str:
    """The report as a test suite.

    Args:
        report: of a check.
        name: of the suite.
    """
    count = {verdict: sum(stage.verdict == verdict for stage in report.stages) for verdict in (*ELEMENTS, ALIGNED)}
    suite = ET.Element(
        "testsuite",
        name=_plain(name),
        tests=str(len(report.stages)),
        failures=str(count[DIVERGED] + count[UNDERPOWERED]),
        errors=str(count[ERROR]),
        skipped=str(count[NOT_TESTED]),
        time=f"{sum(stage.seconds for stage in report.stages):.3f}",
    )
    for stage in report.stages:
        _case(suite, stage, name)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, stage: StageTold, name: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=_plain(name), name=_plain(stage.name), time=f"{stage.seconds:.3f}")
    if stage.verdict in ELEMENTS:
        said = ET.SubElement(case, ELEMENTS[stage.verdict], message=_plain(stage.sentence), type=stage.verdict)
        said.text = _plain("\n".join(lines(stage)))
    elif stage.warnings or stage.notes:
        ET.SubElement(case, "system-out").text = _plain("\n".join((*stage.warnings, *stage.notes)))


def lines(stage: StageTold) -> list[str]:
    """What is known of a stage that did not pass, the most important first."""
    found = [stage.sentence]
    for fault in stage.starting:
        places = [place for place in (fault.candidate, fault.reference) if place is not None]
        found += [f"{place.side}: {where(place)}  {place.operation}  {place.code}".rstrip() for place in places]
        found += [f"  {fault.evidence}"] if fault.evidence else []
    for cause in stage.causes:
        found += [f"{'proven' if cause.proven else 'suspected'} cause: {cause.cause}", f"  fix: {cause.fix}"]
        found += [f"  {cause.tried}"] if cause.tried else []
    remarks = *(f"warning: {text}" for text in stage.further_warnings), *(f"note: {text}" for text in stage.further_notes)
    return [*found, *stage.frames, *remarks]


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
