"""A report as SARIF 2.1.0: the guilty lines, for editors and code hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from paralign import __version__
from paralign.model import ALIGNED, DIVERGED, ERROR
from paralign.report.told import has_a_line

if TYPE_CHECKING:
    from paralign.report.told import Place, StageTold, Told

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(report: Told, root: Path | None = None) -> str:
    """The report's guilty lines; a stage without a line is a result without a place.

    Args:
        report: of a check.
        root: the folder from which paths are written; None leaves them whole.
    """
    told = [stage for stage in report.stages if stage.verdict != ALIGNED]
    rules = [
        {"id": f"paralign/{name}", "shortDescription": {"text": f"the stage {name} of a port is not aligned with its reference"}}
        for name in dict.fromkeys(stage.name for stage in told)
    ]
    return document(rules, [result for stage in told for result in _results(stage, root)])


def document(rules: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """A SARIF file of one run of paralign; columns count UTF-16 units."""
    driver = {"name": "paralign", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _results(stage: StageTold, root: Path | None) -> list[dict[str, Any]]:
    level = "error" if stage.verdict in (DIVERGED, ERROR) else "warning"
    own = {"ruleId": f"paralign/{stage.name}", "level": level}
    found: list[dict[str, Any]] = []
    for fault in stage.faults:
        if not has_a_line(fault.candidate):
            continue
        text = f"{fault.kind or 'another result'}: {fault.evidence}" if found else stage.sentence
        result = {**own, "message": {"text": text}, "locations": [_location(fault.candidate, root)]}
        if has_a_line(fault.reference):
            result["relatedLocations"] = [{**_location(fault.reference, root), "message": {"text": "the reference's line"}}]
        found.append(result)
    return found or [{**own, "message": {"text": stage.sentence or stage.verdict}}]


def _location(place: Place | None, root: Path | None) -> dict[str, Any]:
    if place is None:
        raise AssertionError("asked of a fault that has a line")
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(from_root(place.file, root))}}
    if place.line:
        physical["region"] = {"startLine": place.line}
    return {"physicalLocation": physical}


def from_root(file: str, root: Path | None) -> str:
    """A file as a path below ``root``; whole where it lies elsewhere."""
    path = Path(file)
    if root is not None and path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    return path.as_posix()


def uri(path: str) -> str:
    """A path as an address: relative to where the file is read, or whole.

    >>> uri("my port/50%.py"), uri("/a b.py")
    ('my%20port/50%25.py', 'file:///a%20b.py')
    """
    quoted = quote(path.replace("\\", "/"), errors="replace")
    return f"file://{quoted}" if quoted.startswith("/") else quoted
