"""A quick look at an edit, before it is tried in full.

What a stage found wrong are values that one job of the candidate made. That job alone is done again with the edit: an edit that brings
none of the values nearer to the reference's cannot be what mends the stage, and the rest of a trial is spared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from paralign.capture import Capture
from paralign.dtypes import widen
from paralign.errors import CaptureFormatError, UsageError, WorkerFailed
from paralign.repair.trial_room import of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from paralign.model import Pair, Record, StageResult
    from paralign.repair.trial_room import Room
    from paralign.worker.protocol import Job

#: an edit is tried in full where a value comes this much nearer: what mends a stage leaves rounding
NEARER = 0.2

#: what a stage grants, as a multiple of the noise, where that is more; the part of the distance that it may be
LIMIT, MOST = 10.0, 0.8

#: values that are looked at; elements of one
PLACES, ELEMENTS = 6, 4_000_000

#: a distance that is rounding: nothing can be seen there
ROUNDED = 1e-12

#: how far the distance seen here may be from the one that the stage judged: beyond, it judged something else (with the reference's draws,
#: say), and what this job makes says nothing
JUDGED = 0.05

#: stages that compare laws of what is drawn: a right edit draws other numbers
_OF_LAWS = frozenset({"init"})


@dataclass(frozen=True)
class Place:
    """A value of the candidate that is wrong.

    Args:
        capture: the name of the capture that holds it.
        record: as the candidate recorded it before any edit.
        wanted: the reference's value, or its text.
        apart: how far the two are from each other.
        enough: how near they must come.
        in_order: element by element; else as sets of numbers, where the two lie in memory in other layouts.
    """

    capture: str
    record: Record
    wanted: NDArray[np.float64] | str
    apart: float
    enough: float
    in_order: bool = True


@dataclass(frozen=True)
class Sieve:
    """The jobs that make some wrong values of a stage, and these values."""

    jobs: list[Job]
    places: list[Place]

    def passes(self, room: Room, edited: dict[Path, bytes]) -> bool:
        """Whether an edit has to be tried in full.

        It does where it brings a value nearer, or where nothing can be said.

        Args:
            room: where trials are made.
            edited: path in the user's folders -> content.
        """
        try:
            captures = room.sift(edited, self.jobs)
            return any(_is_nearer(place, captures[place.capture]) for place in self.places)
        except (WorkerFailed, CaptureFormatError, UsageError):  # an edit may change what is recorded, or loaded
            return True


def made(room: Room, edited: dict[Path, bytes], stage: str) -> Sieve | None:
    """The sieve of a stage; None where what is wrong cannot be looked at by itself.

    Args:
        room: where trials are made.
        edited: what the candidate is before the edits that are looked at.
        stage: the name of the stage that diverges.
    """
    if stage in _OF_LAWS:
        return None
    jobs: list[Job] = []
    result = of(room.run(edited, [stage], noted=jobs), stage)
    own = _opened(Path(job.capture) for job in jobs)
    theirs = _opened(room.reference.folder / name for name in sorted(room.reference.asked))
    places = _places(result, own, theirs)
    judged = {place.capture for place in places if place.in_order}
    first = next((name for job in jobs if (name := Path(job.capture).name) in judged), None)
    if first is None:
        return None
    places = [place for place in places if place.capture == first]
    places = places[:: max(1, len(places) // PLACES)][:PLACES]
    needed = _needed(jobs, first)
    spared = [*needed[:-1], _spared(needed[-1], places)]
    for chosen in (spared, needed):
        shown = _shown_again(room, edited, chosen, places)
        if shown:
            return Sieve(chosen, shown)
    return None


def _shown_again(room: Room, edited: dict[Path, bytes], jobs: list[Job], places: list[Place]) -> list[Place]:
    """The values that are as wrong as before where the jobs are done again.

    Nothing is edited there.
    """
    try:
        captures = room.sift(edited, jobs)
    except (WorkerFailed, CaptureFormatError, UsageError):
        return []
    found = [(place, _distance(place, captures[place.capture])) for place in places]
    return [place for place, apart in found if apart is not None and math.isclose(apart, place.apart, rel_tol=JUDGED)]


def _spared(job: Job, places: list[Place]) -> Job:
    """A job without the runs and the modes that made none of the values."""
    parts = {part for place in places for part in place.record.run.split(":")}
    options = dict(job.options)
    for name in ("runs", "modes"):
        given = options.get(name)
        kept = [each for each in given if each in parts] if isinstance(given, list) else []
        if kept:
            options[name] = kept
    return replace(job, options=options)


def _opened(paths: Iterable[Path]) -> dict[str, Capture]:
    """The captures that are there, by name."""
    found = {path.name: _capture(path) for path in paths}
    return {name: capture for name, capture in found.items() if capture is not None}


def _capture(path: Path) -> Capture | None:
    try:
        return Capture.open(path)
    except CaptureFormatError:
        return None


def _places(result: StageResult, own: dict[str, Capture], theirs: dict[str, Capture]) -> list[Place]:
    """The wrong values of a stage that both sides recorded."""
    found: list[Place] = []
    for pair in result.wrong:
        for name, capture in own.items():
            if name in theirs and len(found) < 8 * PLACES:
                found += _place(pair, name, capture, theirs[name])
    return found


def _place(pair: Pair, name: str, own: Capture, theirs: Capture) -> list[Place]:
    """A pair's value in a capture: nothing where it is not there, or does not differ."""
    if pair.candidate is None or pair.reference is None:
        return []
    records = [
        next((each for each in c.records if _is_of(end, each)), None) for c, end in ((theirs, pair.reference), (own, pair.candidate))
    ]
    wanted, have = (_value(c, record) for c, record in zip((theirs, own), records, strict=True))
    record = records[1]
    if record is None or wanted is None or have is None:
        return []
    in_order = pair.transform is None
    apart = _apart(wanted, have, in_order=in_order)
    if apart is None or apart <= ROUNDED:
        return []
    if in_order and pair.error is not None and not math.isclose(apart, pair.error, rel_tol=JUDGED):
        return []
    rounding = LIMIT * pair.noise_value
    return [Place(name, record, wanted, apart, rounding if NEARER * apart < rounding < MOST * apart else NEARER * apart, in_order)]


def _record(capture: Capture, like: Record) -> Record | None:
    """The record of a point in a capture."""
    return next((each for each in capture.records if _is_of(like, each)), None)


def _is_of(record: Record, other: Record) -> bool:
    """Whether two records are of the same point: all but what the values decide."""
    kept = ("name", "leaf", "role", "run", "step", "call", "rank")
    return all(getattr(record, each) == getattr(other, each) for each in kept)


def _value(capture: Capture, record: Record | None) -> NDArray[np.float64] | str | None:
    """What was recorded: real numbers, or a text; None of all else."""
    if record is None or record.text is not None:
        return None if record is None else record.text
    if record.location is None:
        return None
    values = widen(capture.value(record))
    if values.size > ELEMENTS or values.dtype.kind not in "fiub":
        return None
    return np.asarray(values, dtype=np.float64)


def _apart(wanted: NDArray[np.float64] | str, have: NDArray[np.float64] | str, *, in_order: bool) -> float | None:
    """The relative distance of two values; None where they cannot be held against each other."""
    if isinstance(wanted, str) or isinstance(have, str):
        return float(wanted != have) if isinstance(wanted, str) and isinstance(have, str) else None
    if wanted.size != have.size or wanted.size == 0 or (in_order and wanted.squeeze().shape != have.squeeze().shape):
        return None
    one, other = (wanted.ravel(), have.ravel()) if in_order else (np.sort(wanted, axis=None), np.sort(have, axis=None))
    finite = np.isfinite(one) & np.isfinite(other)
    if not finite.all():
        same = np.array_equal(np.isfinite(one), np.isfinite(other))
        return None if same else 1.0
    return float(np.linalg.norm(one - other) / (np.linalg.norm(one) or 1.0))


def _is_nearer(place: Place, capture: Capture) -> bool:
    """Whether a value came nearer, or cannot be held against what it was before."""
    apart = _distance(place, capture)
    if apart is None:
        return True
    if isinstance(place.wanted, str):  # what a stage makes of a text is its own business
        record = _record(capture, place.record)
        return record is None or record.text != place.record.text
    return apart <= place.enough


def _distance(place: Place, capture: Capture) -> float | None:
    """How far a value is from the reference's.

    None where the two cannot be held against each other.
    """
    have = _value(capture, _record(capture, place.record))
    return None if have is None else _apart(place.wanted, have, in_order=place.in_order)


def _needed(jobs: list[Job], last: str) -> list[Job]:
    """The jobs that lead to a capture.

    What prepares the model, and what makes the captures that others take.
    """
    ends = max(number for number, job in enumerate(jobs) if Path(job.capture).name == last)
    wanted = {last}
    found: list[Job] = []
    for job in reversed(jobs[: ends + 1]):
        name = Path(job.capture).name
        if name in wanted or job.task == "load":
            found.append(job)
            wanted |= {Path(path).name for path in job.values.values() if Path(path).parent == Path(job.capture).parent}
    return found[::-1]


__all__ = ["Place", "Sieve", "made"]
