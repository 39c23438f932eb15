"""The files that a check leaves: ``report.json``, and what the migration guides ask for.

``<stage>_ref.npy`` and ``<stage>_<framework>.npy`` are dictionaries as reprod_log writes them, with the values of the native
(float32) runs; ``log/<stage>_diff.log`` is its lines, concluded by our verdict: no threshold knows of rounding.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import save_foreign
from paralign.compat.reprod_log import report_lines
from paralign.errors import plain_text, unwritten
from paralign.model import ALIGNED
from paralign.registry import STAGES
from paralign.report.text import figure
from paralign.worker.session import NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import CheckResult, Record, StageResult

#: what a check came to; written last
REPORT = "report.json"

#: stage -> the guides' name of its arrays
FILES = {stage.name: stage.arrays for stage in STAGES if stage.arrays}

Arrays = "dict[str, np.ndarray[Any, Any]]"


def write(result: CheckResult, captures: dict[str, tuple[Capture, Capture]], folder: Path, threshold: float = 1e-6) -> None:
    """Write the guides' files for every stage with values, then ``report.json``: where that is, everything is.

    Args:
        result: of a check.
        captures: stage -> the captures of both sides.
        folder: where they go.
        threshold: the greatest mean difference that passes in the lines of the logs.

    Raises:
        WriteFailed: a full disk, a limit of sizes, no permission; no file is half-written.
    """
    try:
        (folder / "log").mkdir(exist_ok=True)
    except OSError as fault:
        raise unwritten(folder / "log", fault, "the folder") from fault
    framework = str(result.candidate.get("framework", "candidate"))
    for stage in result.stages:
        if stage.name in FILES:
            _forget(stage.name, framework, folder)
        if stage.name in FILES and stage.name in captures:
            reference, candidate = (arrays(stage.name, c) for c in captures[stage.name])
            name = FILES[stage.name]
            save_foreign(folder / f"{name}_ref.npy", reference)
            save_foreign(folder / f"{name}_{framework if framework != 'ref' else 'candidate'}.npy", candidate)
            replace(folder / "log" / f"{stage.name}_diff.log", plain_text("\n".join(log(stage, reference, candidate, threshold))) + "\n")
    replace(folder / REPORT, result.to_json() + "\n")


def invalidate(folder: Path, stages: Sequence[str]) -> None:
    """Remove what an earlier check said of these stages: a check that is cut short must not leave its verdict behind.

    Raises:
        WriteFailed: a file cannot be removed.
    """
    try:
        (folder / REPORT).unlink(missing_ok=True)
        for stage in stages:
            if stage in FILES:
                _forget(stage, "candidate", folder)
    except OSError as fault:
        raise unwritten(folder, fault, "the result of an earlier check") from fault


def _forget(stage: str, framework: str, folder: Path) -> None:
    """Remove what an earlier check wrote of a stage: its verdict is not this one's."""
    sides = {"ref", framework, "candidate", "torch", "paddle", "numpy"}
    for path in (*(f"{FILES[stage]}_{side}.npy" for side in sides), f"log/{stage}_diff.log"):
        (folder / path).unlink(missing_ok=True)


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        WriteFailed: it cannot be written; what was there before is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
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


def _name(stage: str, record: Record) -> str | None:
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
    stage: StageResult, reference: dict[str, np.ndarray[Any, Any]], candidate: dict[str, np.ndarray[Any, Any]], threshold: float = 1e-6
) -> list[str]:
    """The lines of a diff log: reprod_log's about each array, then what it cannot compare, then our verdict, which concludes."""
    now = datetime.now().astimezone()
    stamp = f"[{now:%Y/%m/%d %H:%M:%S}] root INFO:"
    shared = [k for k in reference if k in candidate and reference[k].shape == candidate[k].shape and reference[k].size]
    sides = ({k: _subtractable(side[k]) for k in shared} for side in (reference, candidate))
    lines, passed = report_lines(*sides, threshold=threshold, now=now)
    if passed != (stage.verdict == ALIGNED):
        lines = lines[:-1]  # "diff check …": a threshold that knows nothing of rounding does not contradict the verdict
    if not passed and shared:
        lines.append(f"{stamp} paralign: mean differences beyond the threshold of {threshold:g} ([report] diff_threshold)")
    lines += [
        f"{stamp} paralign: {key}: not comparable: {_told(reference.get(key))} against {_told(candidate.get(key))}"
        for key in [*reference, *(k for k in candidate if k not in reference)]
        if key not in shared
    ]
    worst = stage.worst
    ratio = f"error / noise = {figure(worst.ratio)}, " if worst is not None and worst.granted is None else ""
    numbers = f" ({ratio}judged by {stage.method})" if worst is not None else ""
    return [*lines, f"{stamp} paralign: {stage.verdict}{numbers}"]


def _subtractable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers and booleans as int64: their difference neither wraps nor raises."""
    return array.astype(np.int64) if array.dtype.kind in "biu" else array


def _told(array: np.ndarray[Any, Any] | None) -> str:
    return "missing" if array is None else f"shape {tuple(array.shape)}"
