"""The band that a reference's trainings keep to.

A training whose curve leaves it is ended.

How wide the band is, the reference's own runs say: each is held against the mean of the others, and the one that is at its worst furthest
from it sets the width, times a factor that depends on their number: where runs differ by an offset that is drawn from a normal law, which
is the worst case, one in fifty of the same program is further away. Fewer than three runs say too little: a ``margin`` is asked for.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from paralign.errors import CaptureFormatError, ParalignError, UsageError
from paralign.trainlog.lines import EVAL, Row

Place = Tuple[int, int]
Curve = Dict[Place, float]

#: trainings of the reference -> how many times further from the mean than they are themselves 2 % of equal ones are
FACTORS = {3: 4.9, 4: 3.0, 5: 2.35, 6: 2.05, 7: 1.85, 8: 1.7, 9: 1.6}

#: the same of more of them
LEAST = 1.55

#: trainings that say what a band is
ENOUGH = 3

#: share of a figure below which no curve is apart: what float32 sums differ in
ROUNDING = 1e-6

#: part of a curve over which the reference's spread is averaged, to either side
AROUND = 20

#: rows without a place in the reference's logs after which that is said
UNKNOWN = 20

#: a log that is larger than this many bytes is refused: it would be held in memory
LARGEST = 1 << 30


class Parted(ParalignError):
    """A training's curve has left the reference's band."""


class Band:
    """Where a training's curves may be, as the logs of the reference's trainings say.

    Rows are held against those of the same epoch and batch, so both trainings log equally often.

    Args:
        logs: the JSON lines that ``TrainLog`` has written of the reference's trainings (``ref.jsonl``, or ``ref.log`` beside it).
        figures: those that are watched; None for all that every log has, learning rates left out.
        window: rows that a figure of the training is averaged over, each weighing less than the next; evaluations are taken as they are.
        factor: how many times further from the mean than the reference's own runs the training may be; None takes it by their number.
        patience: rows one after the other that are outside before the training has left.
        margin: a distance, as a share of the reference's value, that is always allowed; fewer than three logs need one, which alone counts
            then.
        better: figure -> ``lower`` or ``higher``: there the training may be by any amount.

    Raises:
        UsageError: no log, fewer than three without a margin, a figure that a log lacks, a number that cannot work.
        CaptureFormatError: a log that is no JSON lines of a training.

    Example:
        >>> from paralign.trainlog.lines import TRAIN
        >>> rows = [[Row(TRAIN, 0, n, {"loss": 1 / (n + 1) + run / 100}) for n in range(50)] for run in range(3)]
        >>> band = Band.of_rows(rows, window=1)
        >>> band.look(Row(TRAIN, 0, 3, {"loss": 0.26})), [band.look(Row(TRAIN, 0, n, {"loss": 0.9}))[:20] for n in (4, 5, 6)]
        ('', ['', '', 'loss has left the ba'])
    """

    def __init__(
        self,
        logs: "Union[str, os.PathLike[str], Sequence[Union[str, os.PathLike[str]]]]",
        figures: Optional[Sequence[str]] = None,
        *,
        window: int = 10,
        factor: Optional[float] = None,
        patience: int = 3,
        margin: float = 0.0,
        better: Optional[Dict[str, str]] = None,
    ) -> None:
        named = [logs] if isinstance(logs, (str, os.PathLike)) else list(logs)
        self._make([_read(_lines_of(name)) for name in named], figures, window, factor, patience, margin, better)

    @classmethod
    def of_rows(cls, runs: "Sequence[Sequence[Row]]", figures: Optional[Sequence[str]] = None, **settings: Any) -> "Band":
        """The band of trainings whose rows are at hand."""
        band = cls.__new__(cls)
        known = {"window": 10, "factor": None, "patience": 3, "margin": 0.0, "better": None, **settings}
        band._make([list(rows) for rows in runs], figures, **known)
        return band

    def _make(
        self,
        runs: List[List[Row]],
        figures: Optional[Sequence[str]],
        window: int,
        factor: Optional[float],
        patience: int,
        margin: float,
        better: Optional[Dict[str, str]],
    ) -> None:
        if not runs:
            raise UsageError("a band needs the log of a training", hint="name the logs of the reference's trainings")
        if len(runs) < ENOUGH and not margin > 0:
            raise UsageError(
                f"{len(runs)} trainings do not say how far another seed would be from them",
                hint=f"name the logs of {ENOUGH} or more, or give margin=0.1: a tenth of the reference's value is allowed",
            )
        if window < 1 or patience < 1 or not (factor is None or factor >= 1) or not 0 <= margin < math.inf:
            raise UsageError("window, patience and factor must be at least 1, margin at least 0")
        wrong = [f"{name!r}: {way!r}" for name, way in (better or {}).items() if way not in ("lower", "higher")]
        if wrong:
            raise UsageError(f"better knows 'lower' and 'higher', not {wrong[0]}")
        self._window, self._patience, self._margin, self._better = window, patience, margin, dict(better or {})
        self._factor = FACTORS.get(len(runs), LEAST) if factor is None else factor
        self._count = len(runs)
        self._zones = {key: self._zone(key, curves) for key, curves in _shared(runs, figures).items()}
        self._means: Dict[Tuple[str, str], float] = {}
        self._outside: Dict[Tuple[str, str], List[Place]] = {}
        self._unknown: Optional[int] = 0

    @property
    def figures(self) -> List[str]:
        """The figures that are watched."""
        return list(dict.fromkeys(name for _, name in self._zones))

    def look(self, row: Row) -> str:
        """Why a training has left the band with this row; '' where it has not."""
        place = row.epoch, row.iteration
        known = False
        for name, value in row.values.items():
            zone = self._zones.get((row.kind, name))
            if zone is not None:
                known = known or place in zone
                why = self._inside(row.kind, name, place, value, zone.get(place))
                if why:
                    return why
        self._say_unknown(known)
        return ""

    def _say_unknown(self, known: bool) -> None:
        """Say once that the rows are at other places than the reference's.

        Then nothing is watched.
        """
        if known:
            self._unknown = None
        elif self._unknown is not None:
            self._unknown += 1
            if self._unknown == UNKNOWN:
                told = f"{UNKNOWN} rows of the training stand at no epoch and batch of the reference's logs: nothing is watched"
                sys.stderr.write(f"paralign: {told}\n")

    def _inside(self, kind: str, name: str, place: Place, value: float, zone: "Optional[Tuple[float, float]]") -> str:
        key = kind, name
        if not math.isfinite(value):
            return f"{name} is {value} at {_at(place)}" if zone is not None else ""
        known = self._means.get(key)
        mean = self._means[key] = value if known is None or kind == EVAL else known + 2.0 / (self._window + 1) * (value - known)
        if zone is None:
            return ""
        middle, allowed = zone
        apart = mean - middle
        better = self._better.get(name)
        fine = abs(apart) <= allowed or (better == "lower" and apart < 0) or (better == "higher" and apart > 0)
        self._outside[key] = [] if fine else [*self._outside.get(key, []), place]
        if len(self._outside[key]) < self._patience:
            return ""
        runs = f"{self._count} trainings" if self._count > 1 else "training"
        since = self._outside[key][0]
        told = f"{name} has left the band of the reference's {runs}: {mean:.6g} at {_at(place)}, {middle:.6g} ± {allowed:.2g} there"
        return f"{told}; outside since {_at(since)}"

    def _zone(self, key: Tuple[str, str], curves: List[Curve]) -> "Dict[Place, Tuple[float, float]]":
        """Place -> middle of the band and half its width.

        Up to the first place at which a training of the reference broke down.
        """
        places = [place for place in curves[0] if all(place in curve for curve in curves)]
        end = next((n for n, place in enumerate(places) if not all(math.isfinite(curve[place]) for curve in curves)), len(places))
        places = places[:end]
        smooth = [_smoothed([curve[place] for place in places], 1 if key[0] == EVAL else self._window) for curve in curves]
        middles = [sum(values) / len(values) for values in zip(*smooth)]
        floors = [max(self._margin, ROUNDING) * abs(middle) for middle in middles]
        if len(curves) < ENOUGH:
            return dict(zip(places, zip(middles, floors)))
        count = len(curves)
        gaps = [[abs(value - middle) * count / (count - 1) for value, middle in zip(values, middles)] for values in smooth]
        spread = _around([sum(gap[n] for gap in gaps) / count for n in range(len(places))])
        least = sorted(spread)[len(spread) // 2] / 10 if spread else 0.0
        scale = [max(value, least, ROUNDING * abs(middle)) for value, middle in zip(spread, middles)]
        widest = max((gap[n] / scale[n] for gap in gaps for n in range(len(places)) if scale[n] > 0), default=1.0)
        widths = [max(self._factor * widest * one, floor) for one, floor in zip(scale, floors)]
        return dict(zip(places, zip(middles, widths)))


def _at(place: Place) -> str:
    return f"epoch {place[0]}" + (f", batch {place[1]}" if place[1] >= 0 else "")


def _smoothed(values: List[float], window: int) -> List[float]:
    made: List[float] = []
    for value in values:
        made.append(value if not made or window == 1 else made[-1] + 2.0 / (window + 1) * (value - made[-1]))
    return made


def _around(values: List[float]) -> List[float]:
    """The mean of each place's surroundings."""
    reach = max(1, len(values) // AROUND)
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    ends = [(max(0, n - reach), min(len(values), n + reach + 1)) for n in range(len(values))]
    return [(sums[high] - sums[low]) / (high - low) for low, high in ends]


def _shared(runs: List[List[Row]], figures: Optional[Sequence[str]]) -> "Dict[Tuple[str, str], List[Curve]]":
    """Kind and figure -> its curve in every run.

    Of a place that a log has twice, as after a resumed training, the last one counts.

    Raises:
        UsageError: a figure that a run lacks, or no figure that all have.
    """
    tables: List[Dict[Tuple[str, str], Curve]] = []
    for rows in runs:
        table: Dict[Tuple[str, str], Curve] = {}
        for row in rows:
            for name, value in row.values.items():
                table.setdefault((row.kind, name), {})[row.epoch, row.iteration] = value
        tables.append(table)
    shared = {key: [table[key] for table in tables] for key in tables[0] if all(key in table for table in tables)}
    there = list(dict.fromkeys(name for _, name in shared))
    missing = [name for name in figures or [] if name not in there]
    if missing:
        raise UsageError(
            f"not all logs of the reference have {missing[0]!r}", hint="they have: " + (", ".join(there) or "nothing in common")
        )
    wanted = list(figures) if figures is not None else [name for name in there if name.lower() not in ("lr", "learning_rate", "rate")]
    if not wanted:
        raise UsageError("the reference's logs have no figure in common", hint="log.step(loss=...), log.evaluation(acc=...)")
    return {key: curves for key, curves in shared.items() if key[1] in wanted}


def _lines_of(name: "Union[str, os.PathLike[str]]") -> Path:
    """The file of JSON lines: the one that is named, or the one beside it.

    Raises:
        UsageError: there is none.
    """
    path = Path(os.fspath(name))
    lines = path if path.suffix == ".jsonl" else path.with_suffix(".jsonl")
    if not lines.is_file():
        told = f"paralign log convert {path} --to jsonl --out {lines}" if path.is_file() and path != lines else "name a log that is there"
        raise UsageError("the reference's log has no file of JSON lines", where=str(lines), hint=told)
    if lines.stat().st_size > LARGEST:
        raise CaptureFormatError("the log is larger than 1 GiB", where=str(lines), hint="keep every n-th line")
    return lines


def _read(path: Path) -> List[Row]:
    """The rows of a file of JSON lines.

    A last line that was cut off, as by a kill, is left out.

    Raises:
        CaptureFormatError: another line cannot be read, or there is no row.
    """
    rows: List[Row] = []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            values = {str(name): float(value) for name, value in told["values"].items()}
            rows.append(Row(str(told["kind"]), int(told["epoch"]), int(told["iter"]), values))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            if number == len(lines):
                break
            raise CaptureFormatError(
                f"line {number} is no row of a training",
                where=str(path),
                hint="name the .jsonl that TrainLog has written, or convert the log",
            ) from None
    if not rows:
        raise CaptureFormatError("the log has no row of a training", where=str(path), hint="name the .jsonl that TrainLog has written")
    return rows
