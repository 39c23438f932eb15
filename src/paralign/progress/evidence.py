"""Whether the port's training program writes the log that the guide asks for.

The files beside its code tell.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.errors import CaptureFormatError, UsageError
from paralign.training import read_log
from paralign.trainlog.lines import EVAL, TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.training import Log

#: names of files that hold logs of trainings; ``.jsonl`` as TrainLog writes it
SUFFIXES = frozenset({".log", ".txt", ".jsonl"})

#: entries of folders that are looked at, files that are read: a repository has some thousand files, reading a log takes 10 ms a megabyte
MOST_ENTRIES, MOST_FILES = 20_000, 64

#: bytes of a log that is read to see what its lines hold
LARGEST = 64 << 20


@dataclass(frozen=True)
class Evidence:
    """What the best log of a training says.

    Args:
        path: the log; None where there is none.
        rows: lines of training steps.
        evaluations: lines of evaluations.
        lacking: what the guide asks for and its lines do not tell.
    """

    path: Path | None = None
    rows: int = 0
    evaluations: int = 0
    lacking: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether a log is there and has all that the guide asks for."""
        return self.path is not None and not self.lacking


def look(roots: Sequence[Path], *, without: Sequence[Path], named: Sequence[Path] = ()) -> Evidence:
    """The most complete log of a training below some folders.

    Args:
        roots: folders to look in.
        without: folders that are left out, as the output folder.
        named: logs that the project names, wherever they lie.
    """
    found: list[Evidence] = []
    for path in [*named, *_candidates(roots, {folder.resolve() for folder in without})]:
        try:
            log = read_log(path)
        except (CaptureFormatError, UsageError):
            continue  # no text, or gone: not a log
        if any(row.kind == TRAIN for row in log.rows):
            found.append(_judged(log))
    return min(found, key=lambda each: (len(each.lacking), -each.rows), default=Evidence())


def _candidates(roots: Sequence[Path], without: set[Path]) -> Iterator[Path]:
    """Files that may be logs, the first ``MOST_FILES``.

    Folders that begin with a dot or an underscore are left out.
    """
    entries = files = 0
    seen: set[Path] = set()
    for root in roots:
        for folder, inner, names in os.walk(root):
            inner[:] = sorted(name for name in inner if name[0] not in "._" and (Path(folder) / name).resolve() not in without)
            entries += len(inner) + len(names)
            for name in sorted(names):
                path = Path(folder) / name
                if path.suffix not in SUFFIXES or path in seen or not path.is_file() or path.stat().st_size > LARGEST:
                    continue
                seen.add(path)
                files += 1
                yield path
            if entries > MOST_ENTRIES or files >= MOST_FILES:
                return


def _judged(log: Log) -> Evidence:
    """Which of the guide's figures a log's lines tell."""
    training = [row for row in log.rows if row.kind == TRAIN]
    evaluations = [row for row in log.rows if row.kind == EVAL]
    lacking = [name for name in ("reader_cost", "batch_cost", "ips") if not all(getattr(row, name) > 0 for row in training)]
    if not all(any("loss" in name.lower() for name in row.values) for row in training):
        lacking.insert(0, "loss")
    if not evaluations:
        lacking.append("results of an evaluation")
    return Evidence(log.path, len(training), len(evaluations), lacking)
