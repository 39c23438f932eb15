"""Plots of what a check compared, where matplotlib is installed (the extra ``plot``)."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import unwritten
from paralign.report.series import POINTS, marked, spread

if TYPE_CHECKING:
    from pathlib import Path

#: the file of the learning rates
SCHEDULE = "schedule.png"


def curve(rates: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The steps to draw of rates of shape ``(steps, groups)``.

    They are evenly spread, with both ends of every jump.

    >>> curve(np.array([[1.0]] * 5000 + [[0.1]] * 5000)).searchsorted([4999, 5000, 9999]).size
    3
    """
    steps = spread(len(rates))
    change = np.abs(np.diff(rates, axis=0)).max(axis=1, initial=0.0)
    jumps = np.argsort(change)[::-1][:POINTS]
    return np.unique(np.concatenate([steps, jumps, jumps + 1]))[: None if len(rates) > 1 else 1]


def schedule(folder: Path, reference: np.ndarray[Any, Any], candidate: np.ndarray[Any, Any]) -> bool:
    """Draw both sides' learning rates over the steps into ``schedule.png``.

    False where matplotlib is not installed.

    Args:
        folder: where the file goes.
        reference: the rates, shape ``(steps, groups)``.
        candidate: the same.

    Raises:
        WriteFailed: the file cannot be written.
    """
    if find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, rates, style in (("reference", reference, "-"), ("candidate", candidate, "--")):
        for group, values in enumerate(np.unique(rates, axis=1).T if rates.size else ()):
            steps = curve(values[:, None])
            shown = values[steps]
            look: dict[str, Any] = {"color": "C0" if name == "reference" else "C1", "marker": ".", "markevery": marked(shown)}
            axes.plot(steps, shown, style, label=name if group == 0 else None, **look)
    axes.set_xlabel("step of the schedule")
    axes.set_ylabel("learning rate")
    axes.legend()
    temporary = folder / f".{SCHEDULE}.tmp"
    try:
        figure.savefig(temporary, format="png", dpi=120)
        temporary.replace(folder / SCHEDULE)
    except OSError as fault:
        raise unwritten(folder / SCHEDULE, fault) from fault
    finally:
        with suppress(OSError):
            temporary.unlink()
    return True
