"""Conversions and differences of weights on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paralign.errors import one_line
from paralign.report.language import say
from paralign.report.text import figure

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from paralign.conversion import Conversion
    from paralign.conversion.difference import Difference, Row
    from paralign.conversion.layers import Layers
    from paralign.conversion.shrunk import Group as Shrunk

#: verdict -> how it is shown, and what it means
VERDICTS = {
    "kept": ("bold green", "nothing but the format changed"),
    "as the rules say": ("bold green", "no model was run"),
    "proven": ("bold green", "with these weights both models give the same outputs"),
    "not proven": ("bold yellow", "nothing shows that this is right"),
    "differs": ("bold red", "with these weights the models give different outputs"),
    "incomplete": ("bold red", "not every tensor has a place; nothing was written"),
}

#: names listed of many
MOST = 20


def conversion(found: Conversion, *, planned: bool, rules: Path | None, every: bool = False) -> Group:
    """The rules of a conversion, what it leaves out, what was written, the verdict.

    With ``every``, all its tensors with both shapes.
    """
    parts: list[RenderableType] = []
    if every and found.ways:
        parts.append(_tensors(found))
    elif found.rules.rows():
        parts.append(_rules(found))
    parts.append(Text(say("{kept} of {count} tensors keep name and layout", kept=found.unchanged, count=len(found.ways)), "dim"))
    if found.dropped:
        parts.append(Text(say("left out, for nothing on the other side needs it: {names}", names=_some(found.dropped, 4)), "dim"))
    if found.left:
        parts.append(Text(say("also in the source, and left there: {names}", names=_some(found.left, 4)), "dim"))
    parts += _lines(say("no place"), [f"{name}: {say(why)}" for name, why in found.unplaced])
    parts += _lines(say("ambiguous"), [say(line) for line in found.ambiguous])
    parts += _lines(say("not tried, for want of runs"), found.untested)
    parts += [
        Text.assemble((say("note: {note}", note=""), "yellow" if found.verdict in ("not proven", "differs") else "dim"), say(line))
        for line in found.notes
    ]
    parts += _hints(found)
    if rules is not None:
        parts.append(Text(say("rules: {path}", path=one_line(str(rules))), overflow="fold"))
    if planned:
        parts.append(Text(say("nothing was written: --dry-run")))
    for path in (found.urls or found.files)[-1:]:
        parts.append(
            Text(
                say(
                    "written: {path} ({count} tensors, {size} MB, {seconds} s)",
                    path=one_line(str(path)),
                    count=len(found.ways),
                    size=f"{found.bytes / 1e6:.1f}",
                    seconds=f"{found.seconds:.1f}",
                ),
                overflow="fold",
            )
        )
    style, meaning = VERDICTS[found.verdict]
    tried = say(" (error {error} of what is allowed, {runs} runs)", error=figure(found.error), runs=found.runs)
    proof = tried if found.error is not None else ""
    parts.append(Text.assemble(say("verdict: "), (say(found.verdict), style), f": {say(meaning)}{proof}"))
    return Group(*parts)


def _rules(found: Conversion) -> Table:
    table = _table(("source", "left"), ("destination", "left"), ("way", "left"), ("tensors", "right"))
    for reference, candidate, way, count in found.rules.rows():
        table.add_row(Text(one_line(reference)), Text(one_line(candidate)), Text(way), str(count or ""))
    return table


def _tensors(found: Conversion) -> Table:
    table = _table(("source", "left"), ("shape", "left"), ("destination", "left"), ("shape", "left"), ("way", "left"))
    for way in found.ways:
        here, there = (Text(str(list(shape))) for shape in found.shapes_of(way))
        said = (way.transform or "") + (f" into {way.into}" if way.into else "")
        table.add_row(Text(one_line(way.source)), here, Text(one_line(way.destination)), there, Text(said))
    return table


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in columns:
        table.add_column(say(name), justify="right" if side == "right" else "left", overflow="fold")
    return table


def _lines(title: str, lines: list[str]) -> list[RenderableType]:
    if not lines:
        return []
    shown = [Text(one_line(line)) for line in lines[:MOST]]
    more = [Text(say("… and {count} more (--json lists all)", count=len(lines) - MOST), "dim")] if len(lines) > MOST else []
    return [Text(f"{title}:", "yellow"), Padding(Group(*shown, *more), (0, 0, 0, 2), expand=False)]


def _hints(found: Conversion) -> list[RenderableType]:
    if not found.unplaced:
        return []
    return [
        Text(
            say(
                "to leave a tensor out, write [[drop]] with its side (reference: in the source; candidate: in the destination) and "
                "name into a file for --rules; [[rename]] and [[route]] give one a place"
            ),
            "dim",
        )
    ]


def _some(names: list[str], most: int) -> str:
    return one_line(", ".join(names[:most])) + (say(" and {count} more", count=len(names) - most) if len(names) > most else "")


def difference(found: Difference, *, every: bool) -> Group:
    """What two checkpoints differ in.

    Tensors that one lacks, the tensors that differ most, groups that one training shrank.
    """
    parts: list[RenderableType] = [
        Text(
            say("first:  {path} ({framework})", path=one_line(str(found.reference)), framework=_framework(found, 0)), "dim", overflow="fold"
        ),
        Text(
            say("second: {path} ({framework})", path=one_line(str(found.candidate)), framework=_framework(found, 1)), "dim", overflow="fold"
        ),
    ]
    parts += _lines(say("only in the first"), found.missing)
    parts += _lines(say("only in the second"), found.extra)
    if found.dropped:
        parts.append(Text(say("not compared: {names}", names=_some(found.dropped, 3)), "dim"))
    rows = found.rows if every else found.different[:MOST]
    if rows:
        parts.append(_figures(rows))
    if len(found.different) > MOST and not every:
        parts.append(Text(say("… and {count} more that differ (--all lists every tensor)", count=len(found.different) - MOST), "dim"))
    suspects = [group for group in found.groups if every or group.smaller]
    if suspects:
        parts += _suspects(suspects)
    notes = list(found.notes)
    if found.layers is not None:
        parts += _layers(found.layers, every=every)
        notes += found.layers.notes
    parts += [Text(say("note: {note}", note=say(note)), "dim") for note in notes]
    alike = len(found.rows) - len(found.different)
    parts.append(
        Text.assemble(
            (say("the same") if found.same else say("different"), "bold green" if found.same else "bold red"),
            say(
                ": {alike} tensors agree, {different} differ, {missing} only in the first, {extra} only in the second",
                alike=alike,
                different=len(found.different),
                missing=len(found.missing),
                extra=len(found.extra),
            ),
        )
    )
    return Group(*parts)


def _framework(found: Difference, which: int) -> str:
    return found.frameworks[which] or say("framework not told")


def _figures(rows: list[Row]) -> Table:
    table = _table(
        ("tensor", "left"),
        ("distance", "right"),
        *((f"{name} {which}", "right") for name in ("mean", "std", "least", "greatest") for which in (1, 2)),
        ("said", "left"),
    )
    for row in rows:
        one, other = row.spreads
        pairs = ((one.mean, other.mean), (one.std, other.std), (one.low, other.low), (one.high, other.high))
        name = _of_both(row.reference, row.candidate)
        table.add_row(Text(one_line(name)), figure(row.distance), *(figure(value) for pair in pairs for value in pair), Text(_told(row)))
    return table


def _told(row: Row) -> str:
    said = []
    if row.shapes[0] != row.shapes[1]:
        said.append(say("shape {one} and {other}", one=row.shapes[0], other=row.shapes[1]))
    if row.dtypes[0] != row.dtypes[1]:
        said.append(f"{row.dtypes[0]} and {row.dtypes[1]}")
    if any(values.unfinite for values in row.spreads):
        one, other = (values.unfinite for values in row.spreads)
        said.append(say("{one} and {other} elements are not finite", one=one, other=other))
    return "; ".join([*said, *([say(row.note)] if row.note else [])])


def _suspects(found: list[Shrunk]) -> list[RenderableType]:
    table = _table(
        ("group", "left"),
        ("tensors", "right"),
        *((name, "right") for name in ("mean 1", "mean 2", "std 1", "std 2", "second ÷ first", "usual")),
        ("said", "left"),
    )
    for group in found:
        told = say("abnormally small in the {which}: decayed there and not in the other?", which=group.smaller)
        said = Text(told if group.smaller else "", "yellow")
        numbers = (*group.means, *group.deviations, group.factor, group.usual)
        table.add_row(Text(one_line(group.name)), str(group.tensors), *(figure(value) for value in numbers), said)
    return [Text(say("sizes of tensors that play the same part (root mean square):"), "bold"), table]


def _of_both(reference: str, candidate: str) -> str:
    """What both sides call a tensor or a layer."""
    return candidate if reference == candidate else f"{reference} → {candidate}"


def _layers(found: Layers, *, every: bool) -> list[RenderableType]:
    """What the layers of both models give; of many the first and the last ones."""
    names = ["mean 1", "mean 2", "std 1", "std 2", "distance", "likeness"]
    twice = any(row.again is not None for row in found.rows)
    if twice:
        names += ["distance again", "likeness again"]
    table = _table(("layer", "left"), ("kind", "left"), *((name, "right") for name in names))
    shown, left_out = found.rows, 0
    if not every and len(found.rows) > 2 * MOST:
        shown, left_out = [*found.rows[:MOST], *found.rows[-MOST:]], len(found.rows) - 2 * MOST
    for number, row in enumerate(shown):
        if left_out and number == MOST:
            table.add_row(Text(say("… {count} more (--all) …", count=left_out), "dim"))
        name = _of_both(row.reference, row.candidate)
        one, other = row.spreads
        numbers = [one.mean, other.mean, one.std, other.std, row.distance, row.alike]
        if twice:
            numbers += row.again or (None, None)
        table.add_row(Text(one_line(name)), Text(row.kind), *(figure(value) for value in numbers))
    return [Text(say("what the layers give on {count} samples, each model with its own file:", count=found.samples), "bold"), table]
