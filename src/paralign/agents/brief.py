"""Answers in bounds: texts, lists and the whole, with the number of what was left out."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from paralign.errors import one_line, shortened

if TYPE_CHECKING:
    from paralign.report.told import Fault, Place, StageTold, Told

#: characters of a text; entries of a list
TEXT, ITEMS = 600, 40

#: characters of a whole answer as JSON: about 10,000 tokens
WHOLE = 40_000

#: faults, causes and values of a stage, the worst first: the first fault is the one to mend, the rest may follow from it
_FAULTS, _VALUES = 3, 5


def brief(answer: dict[str, Any], whole: int = WHOLE) -> dict[str, Any]:
    """An answer in bounds.

    Args:
        answer: of what JSON holds.
        whole: characters of all of it, at most.

    Returns:
        The same with long texts and lists cut; ``<key>_omitted`` says how many entries a list lacks.

    >>> brief({"calls": list(range(50))})["calls_omitted"]
    10
    """
    items, longest = ITEMS, TEXT
    cut = _cut(answer, items, longest)
    while len(json.dumps(cut)) > whole and items > 1:
        items, longest = items // 2, max(longest // 2, 80)
        cut = _cut(answer, items, longest)
    return dict(cut)


def _cut(value: Any, items: int, longest: int) -> Any:
    if isinstance(value, str):
        return shortened(one_line(value), longest)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_cut(each, items, longest) for each in value[:items]]
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, each in list(value.items())[:items]:
            name = shortened(one_line(str(key)), longest)
            found[name] = _cut(each, items, longest)
            if isinstance(each, (list, tuple)) and len(each) > items:
                found[f"{name}_omitted"] = len(each) - items
        if len(value) > items:
            found["omitted"] = len(value) - items
        return found
    return value


def of_report(report: Told) -> dict[str, Any]:
    """What an agent has to know of a check.

    Of each stage the sentence, the first faults, causes, and the worst values.
    """
    return {
        "verdict": report.verdict,
        "headline": report.headline,
        "command": report.command,
        "stages": [_stage(stage) for stage in report.stages],
    }


def _stage(stage: StageTold) -> dict[str, Any]:
    judged = [pair for pair in stage.pairs if pair.judged]
    wrong = [pair for pair in judged if pair.verdict != "aligned"]
    worst = sorted(wrong, key=lambda pair: -(pair.ratio if pair.ratio is not None else 0.0))
    return {
        "name": stage.name,
        "verdict": stage.verdict,
        "sentence": stage.sentence,
        "method": stage.method,
        "looked_at": list(stage.coverage),
        "ratio": stage.ratio,
        "values_judged": len(judged),
        "values_not_aligned": len(wrong),
        "worst": [
            {"key": p.key, "verdict": p.verdict, "error": p.error, "ratio": p.ratio, "notes": list(p.notes)} for p in worst[:_VALUES]
        ],
        "faults": [_fault(fault) for fault in stage.faults[:_FAULTS]],
        "faults_in_all": len(stage.faults),
        "causes": [{"cause": c.cause, "fix": c.fix, "proven": c.proven, "rule": c.rule} for c in stage.causes],
        "warnings": list(stage.warnings),
        "notes": list(stage.notes),
        "failure": stage.failure,
        "frames": list(stage.frames),
        "may_follow_from": list(stage.follows),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "confirmed": fault.confirmed,
        "evidence": fault.evidence,
        "reference": _place(fault.reference),
        "candidate": _place(fault.candidate),
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "file": place.shown,
        "line": place.line,
        "code": place.code,
        "operation": place.operation,
        "module": place.module,
        "arguments": {key: repr(value) for key, value in place.arguments.items()},
    }
