"""A diverged prediction, followed.

The first step before or behind the network that makes something else of the same values.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paralign.dtypes import EPS
from paralign.errors import WorkerFailed
from paralign.locate.data.distances import apart
from paralign.locate.data.trace import Way, holds, locate, locate_last
from paralign.locate.optimizer.setting_lines import code_at
from paralign.model import Divergence, Point
from paralign.run import command_line
from paralign.run.command_line import PATH, PYTHON, filled, split
from paralign.run.invocation import is_python
from paralign.worker.predictions.prediction import OUT
from paralign.worker.protocol import Predicted

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.locate.data.trace import Guilty, Step
    from paralign.model import Pair, StageResult

#: values of programs that differ by less are equal but for rounding: a hundred roundings of float32, as for results
ROUNDED = 100 * EPS["float32"]

#: further paths on which a cause is tried
HELD_OUT = 2


def follow(context: Context, result: StageResult) -> None:
    """Point the divergence at the first line that differs, with its cause.

    Leaves it as it is where a side cannot be traced.
    """
    wrong = result.wrong
    for kind in ("predict", "command"):
        first = next((p for p in wrong if kind_of(p) == kind), None)
        if first is not None and _followed(context, result, kind, first):
            return


def kind_of(pair: Pair) -> str:
    """Whether a pair is a result of ``predict`` or of a ``command``; '' of neither."""
    return _place(pair)[0]


def _place(pair: Pair) -> tuple[str, int, str]:
    """Kind (``predict``, ``command``, ``''``), number of the path and leaf of a pair."""
    record = pair.reference or pair.candidate
    name, _, number = ("", "", "") if record is None else record.name.partition("_")
    if record is None or not number.isdigit():
        return "", 0, ""
    return name, int(number), record.leaf


def number_of(pair: Pair) -> int:
    """The number of the path whose result a pair is."""
    return _place(pair)[1]


def _followed(context: Context, result: StageResult, kind: str, first: Pair) -> bool:
    """Whether a prediction could be followed to a line, which is named then."""
    _, number, leaf = _place(first)
    captures = _traced(context, result, kind, number)
    guilty = None if captures is None else _located(captures, kind, leaf)
    if guilty is None or captures is None:
        return False
    sides = ("reference", "candidate")
    cut_off = [side for side, capture in zip(sides, captures, strict=True) if Predicted.answer(capture).exhausted]
    for side in cut_off:
        result.notes.append(f"the trace of the {side}'s prediction was cut off: its way is too long to be kept whole")
    _hold_out(context, result, kind, guilty, number, leaf)
    before = result.divergence
    result.divergence = Divergence(
        end_of(guilty.reference),
        end_of(guilty.candidate),
        first,
        inputs_agree=guilty.before is not None,
        last_agreeing=guilty.last or (None if before is None else before.last_agreeing),
        confirmed=guilty.finding is not None and guilty.finding.proven,
    )
    if guilty.finding is not None:
        result.findings.append(guilty.finding)
    return True


def _traced(context: Context, result: StageResult, kind: str, number: int) -> tuple[Capture, Capture] | None:
    """Both sides' ways of one prediction.

    None, with a note, where a side's cannot be followed.
    """
    path = context.settings.paths[number]
    orders = [Predicted(path), Predicted(path)]
    if kind == "command":
        for number_, side in enumerate(("reference", "candidate")):
            script = _script(context, side, path)
            if script is None:
                result.notes.append(f"the {side}'s program is no Python script of its interpreter: its steps cannot be followed")
                return None
            orders[number_] = Predicted(path, script, str(context.settings.sides[side].root))
    try:
        return context.record_both(f"predicted-{number}", orders[0], candidate=orders[1])
    except WorkerFailed as failed:
        result.warnings.append(f"the prediction could not be traced: the {failed.side} failed: {failed.type}: {failed.message}")
        return None


def _script(context: Context, side: str, path: str) -> list[str] | None:
    """The words of a side's command behind the interpreter.

    None where it does not begin with the side's Python and a script.
    """
    words = split(context.settings.commands[side], side)
    if not is_python(words[0], context.settings.sides[side]) or len(words) < 2:  # noqa: PLR2004 - the interpreter and a script
        return None
    if words[1] != "-m" and not words[1].endswith(".py"):
        return None
    if words[1] != "-m":
        words[1] = os.path.join(context.settings.sides[side].root, words[1])  # noqa: PTH118 - a word of a command
    values = {PATH: os.path.abspath(path), PYTHON: context.settings.sides[side].python, command_line.OUT: OUT}  # noqa: PTH100 - as above
    return [filled(word, values) for word in words[1:]]


def _located(captures: tuple[Capture, Capture], kind: str, leaf: str) -> Guilty | None:
    reference, candidate = (Way.read(capture, "seed-0") for capture in captures)
    rounded(reference, candidate)
    name = f"sample.{leaf}" if leaf else "sample"
    known = kind == "predict" and name in reference.leaves and name in candidate.leaves
    found = locate(reference, candidate, name) if known else None
    return locate_last(reference, candidate) if found is None else found  # what is printed, or one of several texts, has no way of its own


def rounded(reference: Way, candidate: Way) -> None:
    """Replace candidate values by the reference's where they differ by rounding alone.

    Networks of two frameworks round apart.
    """
    for step in candidate.steps:
        for other in reference.steps:
            if step.value.shape == other.value.shape and step.value.size and 0 < apart(other.value, step.value) <= ROUNDED:
                step.value = other.value
                break


def _hold_out(context: Context, result: StageResult, kind: str, guilty: Guilty, number: int, leaf: str) -> None:
    """Prove a cause only if another path, not used to find it, shows it as well."""
    finding = guilty.finding
    if finding is None or not finding.proven:
        return
    finding.proven = False
    for other in [n for n in range(len(context.settings.paths)) if n != number][:HELD_OUT]:
        captures = _traced(context, result, kind, other)
        found = None if captures is None else _located(captures, kind, leaf)
        if found is None:
            continue
        finding.proven = holds(guilty, found)
        if not finding.proven:
            result.notes.append("the cause was found on one path and does not hold on another: it is a guess")
            return
    if not finding.proven:
        result.notes.append("the cause was found on one path, and there was no other wrong one to try it on")


def end_of(step: Step | None) -> Point | None:
    """The point of a step: its function, what it makes, its line."""
    return (
        None if step is None else Point(step.record.attrs.get("function", ""), step.said, step.record.source, code_at(step.record.source))
    )
