"""An inventory of calls for readers and programs: terminal, Markdown, JSON, SARIF."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from paralign.catalogue.alternatives import under_compat
from paralign.errors import one_line
from paralign.port.scan import requesting
from paralign.port.scan.inventory import MEANINGS, Inventory, Note, Row, Status
from paralign.report.issues import issue
from paralign.report.language import say, speaking
from paralign.report.sarif import document, uri

if TYPE_CHECKING:
    from collections.abc import Iterable

#: places that are listed after a difference before the rest is counted: they are there to be looked up, not read
_PLACES = 4

#: statuses that a reader has to do something about, the worst first
TO_DO = (Status.UNKNOWN, Status.MISSING, Status.SILENT, Status.ARGUMENTS, Status.CONDITIONAL)

#: SARIF's levels
_LEVELS = {
    Status.UNKNOWN: "warning",
    Status.MISSING: "error",
    Status.SILENT: "error",
    Status.ARGUMENTS: "warning",
    Status.CONDITIONAL: "note",
}


def terminal(inventory: Inventory, *, full: bool = False) -> list[str]:
    """Lines for the terminal; ``full`` lists every call."""
    lines = [*_head(inventory), "", *_table(inventory)]
    if full:
        lines += ["", *(_line(row) for row in inventory.rows)]
        return lines + _files(inventory)
    for status in TO_DO:
        groups = _grouped(inventory.rows, status)
        if groups:
            lines += ["", f"{status.value} ({say(MEANINGS[status])})"]
            lines += [line for (name, note), rows in groups.items() for line in _group(name, note, rows)]
    return [*lines, *_alternative(inventory), *_files(inventory)]


def summary(inventory: Inventory) -> str:
    """One line: how many calls of each status, and files that could not be read."""
    parts = []
    for status in Status:
        count = sum(row.status is status for row in inventory.rows)
        if count:
            parts.append(f"{count} {status.value}")
    if inventory.unread:
        parts.append(say("{count} files not read", count=len(inventory.unread)))
    head = say("{calls} calls in {files} files", calls=len(inventory.rows), files=len(inventory.files))
    return f"{head}: {', '.join(parts) or say('nothing to do')}"


def _head(inventory: Inventory) -> list[str]:
    calls, files = len(inventory.rows), len(inventory.files)
    lines = sum(each.lines for each in inventory.files)
    versions = f"torch {inventory.torch}, paddle {inventory.paddle} ({inventory.asked})"
    head = [f"{say('{calls} calls in {files} files, {lines} lines', calls=calls, files=files, lines=lines)}; {versions}"]
    guessed = sum(row.certainty.value != "resolved" for row in inventory.rows)
    by_name = sum(row.basis.value != "executed" and row.status in (Status.SAME, Status.RENAMED) for row in inventory.rows)
    if guessed:
        head.append(say("of these {count} through types that were inferred or guessed", count=guessed))
    if by_name:
        told = "of the same and renamed calls {count} rest on names and signatures alone: no entry of the catalogue executes them"
        head.append(say(told, count=by_name))
    return head


def _table(inventory: Inventory) -> list[str]:
    names = [status.value for status in Status]
    lines = ["  ".join(["category".ljust(12), *(name.rjust(11) for name in names)])]
    for category, counts in inventory.by_category().items():
        if any(counts.values()):
            lines.append("  ".join([category.value.ljust(12), *(str(counts[status]).rjust(11) for status in Status)]))
    total = inventory.by_status()
    return [*lines, "  ".join(["all".ljust(12), *(str(total[status]).rjust(11) for status in Status)])]


def _grouped(rows: Iterable[Row], status: Status) -> dict[tuple[str, Note], list[Row]]:
    """Rows of a status by callable and note: the same difference is said once."""
    found: dict[tuple[str, Note], list[Row]] = {}
    for row in rows:
        if row.status is status:
            for note in row.notes:
                if note.status is status:
                    found.setdefault((row.name, note), []).append(row)
    return found


def _group(name: str, note: Note, rows: list[Row]) -> list[str]:
    places = ", ".join(_place(row) for row in rows[:_PLACES])
    rest = say(" and {count} more", count=len(rows) - _PLACES) if len(rows) > _PLACES else ""
    lines = [f"  {one_line(name)}: {say(note.text)}"]
    if note.write:
        lines.append(f"    {say('fix: ')}{one_line(note.write)}")
    return [*lines, f"    {places}{rest}"]


def _place(row: Row) -> str:
    guess = "" if row.certainty.value == "resolved" else f" ({row.certainty.value})"
    return f"{one_line(row.place)}{guess}"


def _line(row: Row) -> str:
    line = f"{_place(row)}: {row.status.value}: {row.name}"
    if row.port and row.port != row.name:
        line += f" → {row.port}"
    notes = [f"{note.text} [{note.write}]" if note.write else note.text for note in row.notes]
    what = "; ".join(dict.fromkeys(notes))
    if what:
        line += f" · {what}"
    return one_line(line)


def _files(inventory: Inventory) -> list[str]:
    lines = []
    if inventory.unread:
        lines += ["", say("{count} files could not be read whole", count=len(inventory.unread))]
        for each in inventory.unread:
            lost = say("; {count} lines lost", count=each.lost) if each.lost else ""
            lines.append(one_line(f"  {each.path}: {say(each.problem or 'nested too deeply')}{lost}"))
    ambiguous = sum(each.ambiguous for each in inventory.files)
    outside = sum(each.outside for each in inventory.files)
    if ambiguous:
        lines += ["", say("{count} calls of methods that tensors have too, on objects of unknown type: not listed", count=ambiguous)]
    if outside:
        lines.append(say("{count} calls of numpy, PIL and OpenCV that prepare no data: not listed", count=outside))
    if inventory.foreign:
        lines.append(say("other packages imported, not looked into: {names}", names=one_line(", ".join(inventory.foreign))))
    return lines


def _alternative(inventory: Inventory) -> list[str]:
    """What the program would meet unchanged, with Paddle in PyTorch's place."""
    known = under_compat()
    rows = [row for row in inventory.rows if row.name.startswith("torch.")]
    if not rows:
        return []
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        outcome = known.outcomes.get(row.name, "")
        found.setdefault(outcome, {}).setdefault(row.name, []).append(row)
    counts = {each: sum(map(len, found.get(each, {}).values())) for each in ("equal", "raises", "silent", "")}
    told = "{equal} calls equal, {raises} raise, {silent} silently different, {open} not executed there"
    ran = say(told, equal=counts["equal"], raises=counts["raises"], silent=counts["silent"], open=counts[""])
    lines = ["", f"{say('unchanged, under paddle.enable_compat()')} ({known.versions}): {ran}"]
    for outcome, text in (("silent", "silently different"), ("raises", "raises")):
        for name, at in found.get(outcome, {}).items():
            rest = say(" and {count} more", count=len(at) - _PLACES) if len(at) > _PLACES else ""
            lines.append(f"  {say(text)}: {one_line(name)}: {', '.join(_place(row) for row in at[:_PLACES])}{rest}")
    return lines


def markdown(inventory: Inventory) -> str:
    """A page: statistics by category, file and callable, what is to be done, issues to file."""
    with speaking("en"):  # a file, which others read
        return _page(inventory)


def _page(inventory: Inventory) -> str:
    lines = ["# Calls of PyTorch and what they become in Paddle", "", *[f"{line}." for line in _head(inventory)], ""]
    lines += ["| status | calls | meaning |", "|---|---|---|"]
    lines += [f"| {status.value} | {count} | {MEANINGS[status]} |" for status, count in inventory.by_status().items()]
    head = " | ".join(status.value for status in Status)
    rule = "---|" * (len(Status) + 1)
    lines += ["", "## By category", "", f"| category | {head} |", f"|{rule}"]
    lines += [f"| {category.value} | {_cells(counts)} |" for category, counts in inventory.by_category().items()]
    lines += ["", "## By file", "", f"| file | {head} |", f"|{rule}"]
    lines += [f"| {_cell(path)} | {_cells(counts)} |" for path, counts in inventory.by_file().items()]
    lines += ["", "## By callable", "", f"| callable | {head} |", f"|{rule}"]
    lines += [f"| `{_cell(name)}` | {_cells(counts)} |" for name, counts in inventory.by_api().items()]
    for status in TO_DO:
        groups = _grouped(inventory.rows, status)
        if groups:
            lines += ["", f"## {status.value.capitalize()}", "", f"{MEANINGS[status][0].upper()}{MEANINGS[status][1:]}.", ""]
            lines += ["| callable | difference | fix | places |", "|---|---|---|---|"]
            lines += [_row(name, note, rows) for (name, note), rows in groups.items()]
    lines += _issues(inventory)
    for line in _files(inventory):
        indented = not line or line.startswith("  ")
        lines.append(line if indented else f"{line}\n")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def _cells(counts: Any) -> str:
    return " | ".join(str(counts[status]) for status in Status)


def _row(name: str, note: Note, rows: list[Row]) -> str:
    places = ", ".join(_place(row) for row in rows)
    return f"| `{_cell(name)}` | {_cell(note.text)} | {_cell(note.write)} | {_cell(places)} |"


def _issues(inventory: Inventory) -> list[str]:
    missing = requesting.of_inventory(inventory, run_programs=False)
    if not missing:
        return []
    lines = ["", "## Issues to file", "", "For what cannot be composed of other calls."]
    lines.append("`paralign scan PATH --issue` writes them with a program and the numbers that PyTorch gives:")
    for request in missing:
        lines += ["", "````markdown", *issue(request).rstrip("\n").split("\n"), "````"]
    return lines


def as_json(inventory: Inventory) -> str:
    """Everything, for programs."""
    content = {
        "schema": 1,
        "torch": inventory.torch,
        "paddle": {"version": inventory.paddle, "asked": inventory.asked},
        "statistics": {
            "status": _named(inventory.by_status()),
            "category": {category.value: _named(counts) for category, counts in inventory.by_category().items()},
            "api": {name: _named(counts) for name, counts in inventory.by_api().items()},
            "file": {path: _named(counts) for path, counts in inventory.by_file().items()},
        },
        "files": [vars(each) for each in inventory.files],
        "calls": [_call(row) for row in inventory.rows],
        "foreign": inventory.foreign,
    }
    return json.dumps(content, indent=1)


def _named(counts: Any) -> dict[str, int]:
    return {status.value: counts[status] for status in Status if counts[status]}


def _call(row: Row) -> dict[str, Any]:
    notes = [{"status": note.status.value, "text": note.text, "fix": note.write, "entry": note.entry} for note in row.notes]
    return {
        "path": row.path, "cell": row.cell, "line": row.line, "column": row.column, "source": row.source, "name": row.name,
        "form": row.form.value, "certainty": row.certainty.value, "category": row.category.value, "inside": row.inside,
        "status": row.status.value, "port": row.port, "basis": row.basis.value, "notes": notes,
    }  # fmt: skip


def sarif(inventory: Inventory) -> str:
    """SARIF 2.1.0: a result for each call to be changed, and each file not read whole."""
    rules = [{"id": status.value, "shortDescription": {"text": MEANINGS[status]}} for status in TO_DO]
    rules.append({"id": "unread", "shortDescription": {"text": "a file that could not be read whole"}})
    results = [_result(row, note) for row in inventory.rows for note in row.notes if note.status in _LEVELS]
    for each in inventory.unread:
        text = one_line(each.problem or f"{each.lost} lines are nested too deeply")
        place = {"physicalLocation": {"artifactLocation": {"uri": uri(each.path)}}}
        results.append({"ruleId": "unread", "level": "warning", "message": {"text": text}, "locations": [place]})
    return document(rules, results)


def _result(row: Row, note: Note) -> dict[str, Any]:
    fix = f" Fix: {note.write}" if note.write else ""
    region = {"startLine": row.line, "startColumn": row.column, "endLine": row.end_line, "endColumn": max(row.end_column, 1)}
    place = {"physicalLocation": {"artifactLocation": {"uri": uri(row.path)}, "region": region}}
    return {
        "ruleId": note.status.value,
        "level": _LEVELS[note.status],
        "message": {"text": one_line(f"{row.name}: {note.text}{fix}")},
        "locations": [place],
        "properties": {"api": row.name, "port": row.port, "entry": note.entry, "certainty": row.certainty.value, "cell": row.cell},
    }
