"""The files that a check leaves: ``report.json``, and what the migration guides ask for.

``<stage>_ref.npy`` and ``<stage>_<framework>.npy`` are dictionaries as reprod_log writes them, with the values of the native
(float32) runs; ``log/<stage>_diff.log`` is its lines, concluded by our verdict: no threshold knows of rounding.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import save_foreign
from paralign.compat.reprod_log import report_lines
from paralign.errors import plain_text, unwritten
from paralign.model import ALIGNED
from paralign.registry import BY_NAME, STAGES
from paralign.report import overlaid, plots
from paralign.report.text import figure
from paralign.stages.forward.handed import is_given
from paralign.worker.sides.session import NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import CheckResult, Record, StageResult

#: what a check came to; written last
REPORT = "report.json"

#: what is said of the whole check: of an earlier one, nothing of it may stay
WHOLE = (REPORT, "report.html")

#: stage -> the guides' name of its arrays
FILES = {stage.name: stage.arrays for stage in STAGES if stage.arrays}

#: where a project sets the greatest difference that passes in the lines of its logs
SETTING = "[report] diff_threshold"

Arrays = "dict[str, np.ndarray[Any, Any]]"


class Naming(Enum):
    """How the guides' files are called: they use both ways themselves."""

    GUIDE = "guide"
    PYTORCH = "pytorch"


@dataclass(frozen=True)
class Names:
    """The guides' files of one stage, relative to the output folder."""

    reference: str
    candidate: str
    log: str


@dataclass(frozen=True)
class Given:
    """What both sides are handed by the check; ``labels`` is None where nobody gives any."""

    labels: Capture | None = None


def names(stage: str, reference: str, candidate: str, naming: Naming = Naming.GUIDE) -> Names:
    """The names of a stage's files.

    Args:
        stage: one of ``FILES``.
        reference: the reference's framework.
        candidate: the candidate's framework; '' where it is not known.
        naming: which of the guides' two ways.

    >>> names("backward", "torch", "paddle").log, names("backward", "torch", "paddle", Naming.PYTORCH).log
    ('log/backward_diff.log', 'log/losses_diff_log.txt')
    """
    prefix, other, known = FILES[stage], candidate or "candidate", BY_NAME[stage]
    first, log = known.reference, known.log or f"log/{stage}_diff.log"
    if naming is not Naming.GUIDE:
        log = f"log/{prefix}_diff_log.txt"
        if reference == "torch" and first == "ref":
            first = "pytorch"
    taken = ("ref",) if naming is Naming.GUIDE else ("ref", first)
    if other in taken:  # both sides' files would have one name
        other = "candidate"
    return Names(f"{prefix}_{first}.npy", f"{prefix}_{other}.npy", log)


def write(
    result: CheckResult,
    captures: dict[str, tuple[Capture, Capture]],
    folder: Path,
    threshold: float = 1e-6,
    naming: Naming = Naming.GUIDE,
    given: Given = Given(),
) -> None:
    """Write the guides' files for every stage with values, then ``report.json``.

    Where that is, everything is.

    Args:
        result: of a check.
        captures: stage -> the captures of both sides.
        folder: where they go.
        threshold: the greatest mean difference that passes in the lines of the logs.
        naming: how the files are called.
        given: what both sides were handed beside their own data.

    Raises:
        WriteFailed: a full disk, a limit of sizes, no permission; no file is half-written.
    """
    try:
        (folder / "log").mkdir(exist_ok=True)
    except OSError as fault:
        raise unwritten(folder / "log", fault, "the folder") from fault
    frameworks = [str(side.get("framework", "")) for side in (result.reference, result.candidate)]
    for stage in result.stages:
        if stage.name not in FILES:
            continue
        _forget(stage.name, frameworks[1], folder)
        if stage.name in captures:
            reference, candidate = (_inputs_first({**arrays(stage.name, c), **_labels(stage.name, given)}) for c in captures[stage.name])
            files = names(stage.name, frameworks[0], frameworks[1], naming)
            save_foreign(folder / files.reference, reference)
            save_foreign(folder / files.candidate, candidate)
            if "schedule" in reference and "schedule" in candidate:
                plots.schedule(folder, reference["schedule"], candidate["schedule"])
            if stage.name == "train":
                overlaid.draw(stage, captures[stage.name], folder)
            replace(folder / files.log, plain_text("\n".join(log(stage, reference, candidate, threshold))) + "\n")
    replace(folder / REPORT, result.to_json() + "\n")


def invalidate(folder: Path, stages: Sequence[str]) -> None:
    """Remove what an earlier check said of these stages.

    A check that is cut short must not leave its verdict behind.

    Raises:
        WriteFailed: a file cannot be removed.
    """
    try:
        for name in WHOLE:
            (folder / name).unlink(missing_ok=True)
        for stage in stages:
            if stage in FILES:
                _forget(stage, "candidate", folder)
    except OSError as fault:
        raise unwritten(folder, fault, "the result of an earlier check") from fault


def _forget(stage: str, framework: str, folder: Path) -> None:
    """Remove what an earlier check wrote of a stage: its verdict is not this one's."""
    prefix = FILES[stage]
    sides = {"ref", BY_NAME[stage].reference, "pytorch", framework, "candidate", "torch", "paddle", "numpy"}
    paths = [f"{prefix}_{side}.npy" for side in sides if side]
    paths += [f"log/{stage}_diff.log", f"log/{prefix}_diff_log.txt"]
    if prefix == "schedule":
        paths.append(plots.SCHEDULE)
    elif stage == "train":
        paths.append(overlaid.CURVES)
    for path in paths:
        (folder / path).unlink(missing_ok=True)


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        WriteFailed: it cannot be written; what was there before is untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as fault:
        raise unwritten(path, fault) from fault
    finally:
        with suppress(OSError):
            temporary.unlink()


def arrays(stage: str, capture: Capture) -> dict[str, np.ndarray[Any, Any]]:
    """The values of a stage under the names that the guides use."""
    found = {}
    for record in capture.records:
        name = _name(stage, record)
        if name is not None and record.location is not None:
            found[name] = np.array(capture.array(record))
    return found


def compared(stage: StageResult, reference: Capture, candidate: Capture) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values behind the pairs of a comparison of two captures, by key."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for pair in stage.pairs:
        for values, capture, record in zip(found, (reference, candidate), (pair.reference, pair.candidate), strict=True):
            if record is not None and record.location is not None:
                values[pair.key] = np.array(capture.array(record))
    return found


def _labels(stage: str, given: Given) -> dict[str, np.ndarray[Any, Any]]:
    """The labels, which the guides keep beside the inputs of the forward pass."""
    if stage != "forward" or given.labels is None:
        return {}
    records = [r for r in given.labels.records if r.name == "labels" and r.location is not None]
    return {f"label.{r.leaf}" if r.leaf else "label": np.array(given.labels.array(r)) for r in records}


def _inputs_first(values: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays with what went in before what came out.

    A comparison reports a difference in it first.
    """
    return dict(sorted(values.items(), key=lambda item: not is_given(item[0])))


def _name(stage: str, record: Record) -> str | None:
    """Under which name the guides' files have a record; None where they leave it out."""
    if record.role == "input" and record.name == "input" and stage == "forward":
        return record.key
    if "module" in record.attrs or record.role in ("parameter", "buffer", "input", "state"):
        return None
    if stage == "backward":
        leaf = f".{record.leaf}" if record.leaf else ""
        return f"{record.name}_{record.step}{leaf}" if record.run == f"{NATIVE}:eval" and record.role == "scalar" else None
    if record.run not in ("", NATIVE) or record.name.startswith(("probe_", "eager", "exported")):
        return None
    if stage == "metric" and record.name == "all":
        return record.leaf or "metric"
    return record.key


def log(
    stage: StageResult,
    reference: dict[str, np.ndarray[Any, Any]],
    candidate: dict[str, np.ndarray[Any, Any]],
    threshold: float = 1e-6,
    setting: str = SETTING,
) -> list[str]:
    """The lines of a diff log, which our verdict concludes.

    reprod_log's about each array, then what it cannot compare; ``setting`` is where a user sets the threshold.
    """
    now = datetime.now().astimezone()
    stamp = f"[{now:%Y/%m/%d %H:%M:%S}] root INFO:"
    both = [key for key in reference if key in candidate]
    shared = [key for key in both if reference[key].shape == candidate[key].shape and reference[key].size]
    sides = ({key: _subtractable(side[key]) for key in shared} for side in (reference, candidate))
    lines, passed = report_lines(*sides, threshold=threshold, now=now)
    if passed != (stage.verdict == ALIGNED):
        lines = lines[:-1]  # "diff check …": a threshold that knows nothing of rounding does not contradict the verdict
    if not passed and shared:
        lines.append(f"{stamp} paralign: mean differences beyond the threshold of {threshold:g} ({setting})")
    for key in dict.fromkeys([*reference, *candidate]):
        if key not in shared:
            lines.append(f"{stamp} paralign: {key}: not comparable: {_told(reference.get(key))} against {_told(candidate.get(key))}")
    return [*lines, f"{stamp} paralign: {stage.verdict}{_judged_by(stage)}"]


def _judged_by(stage: StageResult) -> str:
    """How a stage was judged, for the end of a log; '' where nothing was."""
    worst = stage.worst
    if worst is None:
        return ""
    ratio = "" if worst.granted is not None else f"error / noise = {figure(worst.ratio)}, "
    return f" ({ratio}judged by {stage.method})"


def _subtractable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers and booleans as int64: their difference neither wraps nor raises."""
    return array.astype(np.int64) if array.dtype.kind in "biu" else array


def _told(array: np.ndarray[Any, Any] | None) -> str:
    return "missing" if array is None else f"shape {tuple(array.shape)}"
