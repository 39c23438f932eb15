"""Reading the log of a training, in any of seven forms.

A line is never dropped silently: it is a row, or it says nothing of a training (``other``), or it is ``damaged``, with its number.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import checked_path, open_regular
from paralign.errors import CaptureFormatError
from paralign.training import event_files
from paralign.trainlog.lines import EVAL, TRAIN, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf|NaN|Inf|Infinity)"

#: ``name: number`` or ``name=number``, with the unit that follows; PaddleClas writes ``lr(LinearWarmup): 0.1``
PAIR = re.compile(rf"(?<![\w.])([A-Za-z_][\w@./-]*)(?:\(\w*\))?\s*[:=]\s*({NUMBER})(?![\w.]*\d)\s*(%|ms\b|sec\b|s\b)?")

#: ``name: value`` whose number has something else in its middle: ``0.12x00``, or bytes that are no text
BROKEN = re.compile(r"([A-Za-z_][\w@./-]*)(?:\(\w*\))?\s*[:=]\s*([-+]?\d+\.\d*[A-Za-z][\w.]*\d[\w.]*|[-+\d.]*\ufffd\S*)")

#: where a line stands: epoch (``[epoch 0``, ``Epoch: 3``, ``[Epoch 1/120]``), batch (``iter 0``, ``Iter: 5/10``, ``step=7``)
EPOCH = re.compile(r"\b[Ee]poch\b[\s:=\[]*(\d+)")
ITERATION = re.compile(r"\b(?:[Ii]ter(?:ation)?|[Ss]tep|[Bb]atch)\b[\s:=\[]*(\d+)")
EVALUATION = re.compile(r"\b(?:eval(?:uation)?|val(?:id(?:ation)?)?|test)\b|\[EVAL\]", re.IGNORECASE)

#: what a line of a training holds even where the rest of it is lost
MARKS = re.compile(r"\[TRAIN\]|\[EVAL\]|\bloss\s*[:=]|avg_ips|avg_batch_cost|\b[Ee]poch\b\W*\d+\W+(?:iter|step|batch)\b", re.IGNORECASE)

#: an epoch with a figure: an evaluation's line may hold no more
MARKED = re.compile(rf"\b[Ee]poch\b.*?[A-Za-z_]\w*\s*[:=]\s*{NUMBER}")

#: how a training line of the guides begins, and how it ends; one without its end was cut off
GUIDE = re.compile(r"\[epoch \d+, iter \d+\]\[TRAIN\]|^\[Epoch \d+, iter: \d+\]")
END = re.compile(r"/sec\.?\s*$")

#: lines of reprod_log: a name alone, then its difference
NAMED = re.compile(r"(?:root INFO|reprod_log\.utils - INFO -):?\s*([^\s:]+):\s*$")
DIFFERENCE = re.compile(rf"mean diff: check passed: (True|False), value: ({NUMBER})")

#: names of costs in the formats -> field of a row
COSTS = {
    "avg_samples": "samples",
    "batch_size": "samples",
    "avg_reader_cost": "reader_cost",
    "reader_cost": "reader_cost",
    "avg_batch_cost": "batch_cost",
    "batch_cost": "batch_cost",
    "avg_ips": "ips",
    "ips": "ips",
}

#: names that say where a line stands or how long the training will last, and are no figures of it
PLACES = {"epoch", "iter", "iteration", "step", "batch", "eta", "global_step"}

#: characters of a damaged line that are shown
SHOWN = 80

#: a log that is larger than this many bytes is refused: it would be held in memory
LARGEST = 1 << 30


@dataclass(frozen=True)
class Damaged:
    """A line that is part of a training's log and cannot be read."""

    line: int
    why: str
    text: str


@dataclass
class Log:
    """A log that was read: ``rows`` in order; ``other`` counts lines of no training."""

    path: Path
    rows: list[Row] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)
    other: int = 0

    @property
    def names(self) -> list[str]:
        """The figures that some row has, in the order in which they first came."""
        return list(dict.fromkeys(name for row in self.rows for name in row.values))

    def series(self, name: str, kind: str = TRAIN) -> dict[tuple[int, int], float]:
        """A figure by (epoch, batch); the last counts where a place is there twice."""
        return {(row.epoch, row.iteration): row.values[name] for row in self.rows if row.kind == kind and name in row.values}


def read_log(path: str | Path) -> Log:
    """Read a log; the format is found line by line, so that a file may hold several.

    Raises:
        UsageError: there is no such file, it is a folder, or it may not be read.
        CaptureFormatError: it is larger than 1 GiB, or is no text.
    """
    file = checked_path(path)
    with open_regular(file) as handle:
        raw = handle.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise CaptureFormatError("the log is larger than 1 GiB", where=str(file), hint="split it, or keep every n-th line")
    log, pending = Log(file), _Pending()
    if event_files.is_event_file(raw):
        found = event_files.read(raw, COSTS)
        return Log(file, found.rows, [Damaged(number, why, "") for number, why in found.damaged], found.other)
    for number, line in enumerate(raw.decode("utf-8", errors="replace").splitlines(), 1):
        _take(log, number, line.rstrip("\r"), pending)
    if b"\0" in raw and not log.rows:
        raise CaptureFormatError("the log is no text", where=str(file), hint="name a log of lines, or an event file of TensorBoard's")
    return log


@dataclass
class _Pending:
    """The name that a line of reprod_log announced, and how many differences came."""

    name: str = ""
    count: int = 0


def _take(log: Log, number: int, line: str, pending: _Pending) -> None:
    """Put one line where it belongs."""
    if not line.strip():
        return
    if "\0" in line:  # what a machine that goes down leaves of lines that were not written yet
        log.damaged.append(Damaged(number, "it holds zero bytes", line.replace("\0", "")[:SHOWN]))
        return
    for reader in (_json, _reprod):
        done = reader(log, number, line, pending)
        if done:
            return
    if not MARKS.search(line) and not MARKED.search(line):
        log.other += 1
        return
    row, why = _figures(line)
    if row is not None:
        log.rows.append(row)
    else:
        log.damaged.append(Damaged(number, why, line[:SHOWN]))


def _json(log: Log, number: int, line: str, _: _Pending) -> bool:
    """A JSON line: of ours, or any object with numbers and an epoch or step."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        log.damaged.append(Damaged(number, "the JSON does not end or is not valid", line[:SHOWN]))
        return True
    values = told.pop("values", None)
    figures = {str(k): _float(v) for k, v in (values if isinstance(values, dict) else told).items()}
    kind = str(told.get("kind", EVAL if any(EVALUATION.search(str(k)) for k in told) else TRAIN)).upper()
    costs = {name: _float(told.get(name)) or 0.0 for name in ("samples", "reader_cost", "batch_cost", "ips", "time")}
    epoch = _float(told.get("epoch"))
    step = _float(told.get("iter", told.get("iteration", told.get("step", told.get("global_step")))))
    kept = {k: v for k, v in figures.items() if v is not None and k not in PLACES | set(costs) | set(COSTS)}
    if kind not in (TRAIN, EVAL) or not kept or (epoch is None and step is None):
        log.damaged.append(Damaged(number, "the JSON has no figures, or neither epoch nor step", line[:SHOWN]))
        return True
    log.rows.append(Row(kind, int(epoch or 0), int(step if step is not None else -1), kept, **costs))
    return True


def _float(value: Any) -> float | None:
    try:
        return float(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError):
        return None


def _reprod(log: Log, _: int, line: str, pending: _Pending) -> bool:
    """Lines of reprod_log: the mean difference of each name becomes a row of its own."""
    named = NAMED.search(line)
    if named:
        pending.name = named[1]
        return True
    found = DIFFERENCE.search(line)
    if not found or not pending.name:
        return False
    log.rows.append(
        Row(EVAL, 0, pending.count, {f"mean diff of {pending.name}": float(found[2]), "check passed": float(found[1] == "True")})
    )
    pending.count += 1
    pending.name = ""
    return True


def _figures(line: str) -> tuple[Row | None, str]:
    """A row of a line with names and numbers; else None, and why not."""
    epoch, step = EPOCH.search(line), ITERATION.search(line)
    if epoch is None and step is None:
        return None, "neither an epoch nor a step"
    row = Row(EVAL if EVALUATION.search(line) else TRAIN, int(epoch[1]) if epoch else 0, int(step[1]) if step else -1)
    for name, text, unit in PAIR.findall(line):
        lowered = name.lower()
        if lowered in PLACES:
            continue
        value = float(text) / (1e3 if unit == "ms" else 1.0)
        if lowered in COSTS:
            setattr(row, COSTS[lowered], value)
        else:
            row.values[name] = value
    read = {name for name, _, _ in PAIR.findall(line)}
    broken = next((found for found in BROKEN.finditer(line) if found[1] not in read or "\ufffd" in found[2]), None)
    if broken:
        return None, f"the value of {broken[1]!r} is no number"
    if not row.values:
        return None, "no figure such as a loss"
    cut = re.search(r"[A-Za-z_][\w@-]*\s*[:=]?\s*$", line)
    if cut and re.search(r"[:=]\s*$", line):
        return None, f"the line ends after {cut[0].strip()!r}"
    if GUIDE.search(line) and not END.search(line):
        return None, "the line ends before avg_ips and its unit"
    return row, ""


def columns(log: Log) -> Iterator[dict[str, Any]]:
    """The rows as flat dictionaries, for a table or CSV."""
    for row in log.rows:
        yield {
            "kind": row.kind,
            "epoch": row.epoch,
            "iter": row.iteration,
            **{name: row.values.get(name, math.nan) for name in log.names},
            "samples": row.samples,
            "reader_cost": row.reader_cost,
            "batch_cost": row.batch_cost,
            "ips": row.ips,
        }


def _as_csv(log: Log) -> str:
    import csv
    import io

    text = io.StringIO()
    rows = list(columns(log))
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["kind", "epoch", "iter"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_json(log: Log) -> str:
    rows = [{k: (v if not isinstance(v, float) or math.isfinite(v) else None) for k, v in row.items()} for row in columns(log)]
    damaged = [{"line": each.line, "why": each.why, "text": each.text} for each in log.damaged]
    return json.dumps({"log": log.path.name, "rows": rows, "damaged": damaged, "other": log.other}, indent=1, ensure_ascii=False) + "\n"


def _as_lines(log: Log) -> str:
    from paralign.trainlog.lines import as_json

    return "".join(as_json(row) + "\n" for row in log.rows)


#: form -> what writes a log in it
FORMS: dict[str, Callable[[Log], str]] = {"csv": _as_csv, "json": _as_json, "jsonl": _as_lines}
