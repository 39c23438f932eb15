"""The keys of ``[training]`` that say how whole trainings are run and compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paralign.capture.bounds import checked_path
from paralign.errors import UsageError, quoted
from paralign.trainlog.band import ENOUGH

#: key -> its type in the project file
KEYS: dict[str, Any] = {
    "runs": int,
    "exact_steps": int,
    "seconds": (int, float),
    "metric": str,
    "better": str,
    "margin": (int, float),
    "margin_in": str,
    "one_sided": bool,
    "cross": str,
    "initialisations": int,
    "stop_when_parted": bool,
    "reference_log": (str, list),
    "candidate_log": (str, list),
}

#: seconds that one run of a training may take where the project says nothing: a small set trains in less
SECONDS = 120.0


@dataclass
class Trainings:
    """How whole trainings are run and compared.

    Args:
        runs: trainings a side, each under a seed of its own; 0 for the exact trajectory alone.
        exact_steps: steps that are compared one by one from equal weights and batches; 0 for none.
        seconds: after which one run is stopped.
        metric: the figure of the evaluation that decides; '' takes the first that is no loss, else the first.
        better: ``higher`` or ``lower``; '' takes ``lower`` for names such as loss and error.
        margin: the difference that is allowed at the end.
        margin_in: ``share`` (of the reference's mean) or ``units`` (of the metric).
        one_sided: the candidate may be better by any amount.
        cross: cross experiments ``auto`` (where the trainings differ), ``always`` or ``never``.
        initialisations: initial weights that the dependence on the initialisation is measured with; 0 for none.
        stop_when_parted: a candidate's run ends where its curves leave the band of the reference's runs, which are then made first.
        logs: finished logs of the reference's and the candidate's trainings, in place of runs.
    """

    runs: int = 3
    exact_steps: int = 200
    seconds: float = SECONDS
    metric: str = ""
    better: str = ""
    margin: float = 0.001
    margin_in: str = "share"
    one_sided: bool = False
    cross: str = "auto"
    initialisations: int = 0
    stop_when_parted: bool = False
    logs: tuple[list[Path], list[Path]] = field(default_factory=lambda: ([], []))


def read_trainings(table: dict[str, Any], path: Path) -> Trainings:
    """The table ``[training]`` of a project file, whose types are checked.

    Raises:
        UsageError: a value that cannot work, a log that is not there, logs of one side alone.
    """
    own = {k: v for k, v in table.items() if k in KEYS}
    found = Trainings(**{k: v for k, v in own.items() if k not in ("reference_log", "candidate_log")})
    for key, least in (("runs", 0), ("exact_steps", 0), ("margin", 0), ("initialisations", 0)):
        if not least <= getattr(found, key) < math.inf:
            raise UsageError(f"{key!r} must be at least {least}", where=f"{path}: [training] {key}")
    if found.initialisations == 1:
        told = "'initialisations' must be 0 or at least 2"
        raise UsageError(
            told, where=f"{path}: [training] initialisations", hint="a spread needs two; 5 tell a spread of three times the other"
        )
    if found.stop_when_parted and found.runs < ENOUGH:
        told = f"'stop_when_parted' needs runs = {ENOUGH} or more: fewer do not say how far seeds alone are apart"
        raise UsageError(told, where=f"{path}: [training] stop_when_parted", hint=f"set runs = {ENOUGH}")
    if not 0 < found.seconds < math.inf:
        raise UsageError("'seconds' must be above 0", where=f"{path}: [training] seconds")
    for key, choices in (("better", ("", "higher", "lower")), ("margin_in", ("share", "units")), ("cross", ("auto", "always", "never"))):
        if getattr(found, key) not in choices:
            told = f"{quoted(getattr(found, key))} is not a choice"
            raise UsageError(told, where=f"{path}: [training] {key}", hint="choose one of: " + ", ".join(filter(None, choices)))
    found.logs = _logs(own, "reference_log", path), _logs(own, "candidate_log", path)
    if bool(found.logs[0]) != bool(found.logs[1]):
        lacking = "candidate_log" if found.logs[0] else "reference_log"
        raise UsageError("logs of one side alone cannot be compared", where=f"{path}: [training]", hint=f"set {lacking} too")
    return found


def _logs(table: dict[str, Any], key: str, path: Path) -> list[Path]:
    named = table.get(key, [])
    files = []
    for name in [named] if isinstance(named, str) else named:
        if not isinstance(name, str):
            raise UsageError(f"{key} must be the name of a file, or a list of names", where=f"{path}: [training] {key}")
        file = Path(checked_path(path.parent / name))
        if not file.is_file():
            raise UsageError("the log is not there", where=str(file), hint=f"correct {key} in [training] of {path}")
        files.append(file)
    return files
