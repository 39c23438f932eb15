"""What was recorded before, compared without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paralign.capture import Capture
from paralign.capture.bounds import checked_path, near
from paralign.errors import UsageError, plain_text
from paralign.locate import pipeline
from paralign.locate.laboratory import watched
from paralign.model import CheckResult, Tolerance
from paralign.remote import Fetched, is_remote
from paralign.report import artifacts
from paralign.stages.offline.from_captures import arrays_of, compare_captures, compare_files

#: the two sides, as they are called in folders and reports
SIDES = ("reference", "candidate")


def compare(
    reference: str | Path,
    candidate: str | Path,
    *,
    ratio: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    log: str | Path | None = None,
    threshold: float = 1e-6,
) -> CheckResult:
    """Compare two captures, or two files of arrays, without running anything.

    The latter are ``.npy`` with a dict as reprod_log writes it, or ``.npz``.

    Args:
        reference: what is trusted; a path, or a URL, from which all that lies there is copied to this machine for the time being.
        candidate: what is held against it, likewise.
        ratio: as in :func:`check`.
        atol: as in :func:`check`.
        rtol: as in :func:`check`.
        log: a new file for reprod_log's lines about every entry.
        threshold: the greatest mean difference that passes in these lines; it decides no verdict.

    Raises:
        UsageError: a path that is not there, a capture against a file, or a log that is there already.
        CaptureFormatError: a corrupt or truncated capture or file.
        UnsafeFile: a file that holds more than arrays, scalars and containers.
        WriteFailed: the log cannot be written.
    """
    paths = _at_hand(reference), _at_hand(candidate)
    for path in paths:
        if not checked_path(path).exists():
            raise UsageError(
                f"there is no such file or folder{near(path)}",
                where=str(path),
                hint="give two captures (folders), or two .npy or .npz files",
            )
    if log is not None and checked_path(log).exists():
        raise UsageError("the log is there already", where=str(log), hint="name another file; nothing is replaced")
    tolerance = Tolerance(ratio, atol, rtol)
    if paths[0].is_dir() != paths[1].is_dir():
        raise UsageError(
            "a capture cannot be compared with a file", where=f"{paths[0]}, {paths[1]}", hint="give two captures, or two files"
        )
    if paths[0].is_dir():
        captures = _with_values(paths[0]), _with_values(paths[1])
        result = compare_captures(*captures, tolerance)
        if log is not None:
            _write_log(Path(log), result, artifacts.compared(result.stages[0], *captures), threshold)
    else:
        result = compare_files(*paths, tolerance)
        if log is not None:
            _write_log(Path(log), result, (arrays_of(paths[0]), arrays_of(paths[1])), threshold)
    return result


def _write_log(log: Path, result: CheckResult, arrays: tuple[dict[str, Any], dict[str, Any]], threshold: float) -> None:
    lines = artifacts.log(result.stages[0], *arrays, threshold, "--diff-threshold")
    artifacts.replace(log, plain_text("\n".join(lines)) + "\n")


def locate_captures(reference: str | Path, candidate: str | Path | None = None) -> CheckResult:
    """Where two recorded runs part, by single operations, without running anything.

    Args:
        reference: a capture of operations, as a check leaves it in ``captures/reference``; or the output folder of a check, whose
            captures of the forward pass are taken.
        candidate: the other side's capture; None with an output folder.

    Returns:
        One stage whose ``divergences`` are suspects: only a live run can confirm them.

    Raises:
        UsageError: a path that is not there, or captures without operations.
        CaptureFormatError: a corrupt capture.
    """
    if candidate is not None:
        paths = [_at_hand(reference), _at_hand(candidate)]
    else:
        paths = [Path(reference) / "captures" / side / watched.OPERATIONS for side in SIDES]
    for path in paths:
        if not checked_path(path).is_dir():
            raise UsageError(
                f"there is no capture of operations{near(reference)}",
                where=str(path),
                hint="name two captures, or the output folder of `paralign check` (a stage that agreed in all values leaves them too)",
            )
    return pipeline.recorded(_with_values(paths[0]), _with_values(paths[1]))


def _at_hand(path: str | Path) -> Path:
    """What is named by a path or a URL, on this machine."""
    return Fetched(str(path)).all() if is_remote(path) else Path(path)


def _with_values(path: Path) -> Capture:
    """A capture, whose values must be there.

    Raises:
        UsageError: they were released when its check had ended.
    """
    capture = Capture.open(path)
    capture.require_values()
    return capture
