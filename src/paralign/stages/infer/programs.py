"""The users' own prediction programs: what they print and write, line beside line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.comparison import compare_pair, judge
from paralign.dtypes import EPS, is_floating
from paralign.model import DIVERGED, UNDERPOWERED, Coverage, Finding, Noise, Pair
from paralign.run.invocation import Program, Run, record
from paralign.run.printed import likeness, matched, say_the_same, varying
from paralign.run.recorder import both

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Record, StageResult, Tolerance
    from paralign.run.printed import Line

#: greatest error ÷ noise, as for other programs (stages/infer/stage.py)
LIMIT = 10.0

#: where the reference's noise cannot be measured, for want of inputs: this many roundings
ROUNDINGS = 100.0

#: a change from run to run beyond this is no rounding: times, dates, random draws
ROUNDED = 1e-3

#: the capture of a side's program
NAME = "infer-program"


_NOTHING = "nothing that the programs print or write for this path is compared: have them print the prediction, or write it to a file"


@dataclass
class _Side:
    capture: Capture
    runs: list[Run] = field(default_factory=list)
    again: Run | None = None

    def value(self, record: Record | None) -> Typed | None:
        """The value of a record; None where it was not kept."""
        if record is None or record.location is None:
            return None
        return self.capture.value(record)


def run(context: Context, result: StageResult, outputs: Noise | None) -> None:
    """Run both programs on every path and add what they gave to the result of ``infer``.

    Args:
        context: of the check.
        result: of the stage; pairs, findings, coverage and notes are added.
        outputs: the noise of the model's outputs, None where it is not known.
    """
    sides = _recorded(context)
    tolerance = context.settings.tolerance_of("infer")
    moving = [_moving(side) for side in sides]
    judged = _Judged(sides, moving[0], outputs, tolerance)
    for number in range(len(context.settings.paths)):
        judged.path(number)
    result.pairs += judged.pairs
    result.coverage.append(Coverage("printed lines and written values", judged.compared, judged.total))
    result.notes += _notes(sides, moving, judged)
    random = _random(moving)
    if random is not None:
        record = next(r for r in sides[1].capture.records if r.text is not None)
        result.pairs.append(Pair("command_0 twice", record, None, how="run", verdict=DIVERGED, notes=[random.cause]))
        result.findings.append(random)
    result.seconds["programs"] = sum(side.capture.manifest.resources["seconds"] for side in sides)


def _recorded(context: Context) -> list[_Side]:
    settings, found = context.settings, {}

    def one(side: str) -> Capture:
        program = Program(side, settings.commands[side], settings.sides[side], settings.timeout, settings.lines)
        folder = getattr(context, side).folder / NAME
        capture, runs, again = record(program, settings.paths, folder)
        found[side] = _Side(capture, runs, again)
        return capture

    context.artifacts[NAME] = both(lambda: one("reference"), lambda: one("candidate"))
    return [found["reference"], found["candidate"]]


def _moving(side: _Side) -> dict[str, float]:
    """What changes between two runs of a program on the same path."""
    return varying(side.runs[0].lines.kept, side.again.lines.kept) if side.again is not None else {}


class _Judged:
    """Pairs of all that two programs gave, judged.

    ``compared`` of ``total`` printed lines and written values were.
    """

    def __init__(self, sides: list[_Side], moving: dict[str, float], outputs: Noise | None, tolerance: Tolerance) -> None:
        self._sides, self._moving, self._outputs, self._tolerance = sides, moving, outputs, tolerance
        self.pairs: list[Pair] = []
        self.compared = self.total = 0
        self.chatter: list[str] = []

    def path(self, number: int) -> None:
        """Judge what was given for one path: nothing to compare proves nothing."""
        name, before = f"command_{number}", len(self.pairs)
        records = [{r.leaf: r for r in side.capture.select(name=name)} for side in self._sides]
        written = [{leaf: r for leaf, r in found.items() if not leaf.startswith("line_")} for found in records]
        for leaf in dict.fromkeys([*written[0], *written[1]]):
            self.total += 1
            self.compared += 1
            self._pair(written[0].get(leaf), written[1].get(leaf), 0.0, [])
        lines = [side.runs[number].lines.kept for side in self._sides]
        for one, other in matched(*lines):
            self.total += 1
            self._line(one, other, records)
        if len(self.pairs) == before:
            self.pairs.append(Pair(name, None, None, how="line", verdict=UNDERPOWERED, notes=[_NOTHING]))

    def _line(self, one: Line | None, other: Line | None, records: list[dict[str, Record]]) -> None:
        there = [line for line in (one, other) if line is not None]
        if any(self._moving.get(line.stems, 0.0) > ROUNDED for line in there):
            return
        if len(there) == 1 and not there[0].numbers:
            self.chatter.append(f"{'candidate' if one is None else 'reference'}: {there[0].text}")
            return
        self.compared += 1
        first = None if one is None else records[0][f"line_{one.number}"]
        second = None if other is None else records[1][f"line_{other.number}"]
        if one is None or other is None or not say_the_same(one, other):
            notes = [] if one is None or other is None else [f"likeness of the two lines: {likeness(one, other):.2f}"]
            self._pair(first, second, 0.0, notes)
            return
        beside = [f"{one.text!r} against {other.text!r}"] if one.text != other.text else []
        if not one.numbers:
            same = [None if record is None else replace(record, text=one.words) for record in (first, second)]
            self._pair(same[0], same[1], 0.0, beside)
        for number, (a, b) in enumerate(zip(one.numbers, other.numbers, strict=True)):
            keys = [f"line_{line.number}.{number}" for line in (one, other)]
            self._pair(records[0][keys[0]], records[1][keys[1]], max(a.unit, b.unit), beside, self._moving.get(one.stems, 0.0))

    def _pair(self, first: Record | None, second: Record | None, unit: float, notes: list[str], moved: float = 0.0) -> None:
        values = [side.value(record) for side, record in zip(self._sides, (first, second), strict=True)]
        known = first or second
        key = "" if known is None else known.key
        pair = compare_pair(key, first, second, *values, how="line", atol=self._tolerance.atol, rtol=self._tolerance.rtol)
        size = 0.0 if pair.stats is None else pair.stats.rms_reference
        pair.noise = self._noise(first, unit, moved, size)
        judge(pair, limit=LIMIT, tolerance=self._tolerance, exact=pair.noise is None)
        pair.notes += [note for note in notes if note not in pair.notes]
        self.pairs.append(pair)

    def _noise(self, first: Record | None, unit: float, moved: float, size: float) -> Noise | None:
        """The noise of a number; None for what is exact: whole numbers and text.

        Of a printed number one unit of the last digit is granted, so that the noise is the part of it that the limit multiplies.
        """
        if first is None or not is_floating(first.dtype):
            return None
        printed = first.leaf.startswith("line_")
        if printed and not unit and not moved:
            return None
        least = Noise(EPS["float32"] * ROUNDINGS, f"{ROUNDINGS:g} roundings") if self._outputs is None else self._outputs
        found = [least, Noise(moved, "two runs of the reference")]
        if printed and size:
            found.append(Noise(unit * (1 + 1e-9) / size / LIMIT, "the digits that the programs print"))
        elif printed:
            found.append(Noise(unit * (1 + 1e-9) / LIMIT, "the digits that the programs print"))
        return max(found, key=lambda noise: noise.value)


def _notes(sides: list[_Side], moving: list[dict[str, float]], judged: _Judged) -> list[str]:
    notes = [f"{side.capture.manifest.side}: {note}" for side in sides for note in side.capture.manifest.notes]
    left = [sum(run.lines.left_out for run in side.runs) for side in sides]
    if any(left):
        notes.append(f"printed lines left out by [infer] lines: {left[0]} of the reference, {left[1]} of the candidate")
    changing = [words for words, far in moving[0].items() if far > ROUNDED]
    notes += [f"not judged, for two runs of the reference differ in it: {words!r}" for words in changing[:5]]
    if judged.chatter:
        notes.append(
            f"{len(judged.chatter)} printed lines without numbers have no counterpart and were not judged, such as {judged.chatter[0]!r}"
        )
    return notes


def _random(moving: list[dict[str, float]]) -> Finding | None:
    """A candidate whose program alone gives something else at each run."""
    found = [words for words, far in moving[1].items() if far > ROUNDED and moving[0].get(words, 0.0) <= ROUNDED]
    if not found:
        return None
    apart = max(far for words, far in moving[1].items() if words in found)
    cause = f"two runs of the candidate's program on the same path differ in {found[0]!r}, two runs of the reference's do not"
    fix = "look for a model left in train mode (dropout), for random transforms, and for a generator without a seed in the program"
    return Finding("infer/random", cause, fix, True, None if math.isinf(apart) else apart)
