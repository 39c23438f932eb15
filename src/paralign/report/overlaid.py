"""Both sides' training curves, one over the other: ``train_align.svg``.

It is drawn where matplotlib is installed (the extra ``plot``).
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import one_line, unwritten
from paralign.report.series import marked, spread

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import StageResult

#: the file of the curves
CURVES = "train_align.svg"

#: figures that are drawn
MOST = 8

COLOURS = {"reference": "C0", "candidate": "C1"}


def draw(stage: StageResult, captures: tuple[Capture, Capture], folder: Path) -> bool:
    """Draw every figure of all runs, and rates, over the steps.

    Say where, or why there is no picture.

    Args:
        stage: the stage ``train``, whose notes are added to.
        captures: of both sides: ``curve`` (leaf: kind, figure, number of the run) with the steps in its first row.
        folder: where the file goes.

    Raises:
        WriteFailed: the file cannot be written.
    """
    found = [{r.leaf: c.array(r) for r in c.select(name="curve", role="state")} for c in captures]
    ours, theirs = (dict.fromkeys(leaf.rpartition(" ")[0] for leaf in curves) for curves in found)
    figures = [figure for figure in ours if figure in theirs]
    if not figures:
        return False
    if find_spec("matplotlib") is None:
        stage.notes.append("no curves were drawn: matplotlib is not installed (pip install 'paralign[plot]')")
        return False
    _write(_page(found, figures[:MOST]), folder / CURVES)
    note = f"curves of {min(MOST, len(figures))} of {len(figures)} figures: {folder / CURVES}"
    stage.notes += [] if note in stage.notes else [note]
    return True


def _page(sides: list[dict[str, np.ndarray[Any, Any]]], figures: list[str]) -> Any:
    from matplotlib.figure import Figure

    page = Figure(figsize=(8, 2.8 * len(figures)), layout="constrained")
    for axes, figure in zip(np.atleast_1d(page.subplots(len(figures), 1)), figures, strict=True):
        for side, curves in zip(COLOURS, sides, strict=True):
            runs = [values for leaf, values in curves.items() if leaf.rpartition(" ")[0] == figure]
            for number, (steps, values) in enumerate(runs):
                kept = spread(len(values))
                marks: dict[str, Any] = {"marker": ".", "markevery": marked(values[kept])}
                style = {"color": COLOURS[side], "alpha": 0.7, "linewidth": 1, **marks}
                axes.plot(steps[kept], values[kept], label=side if number == 0 else None, **style)
        axes.set_title(one_line(figure).replace("$", r"\$"), fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.legend(fontsize=8)
    return page


def _write(page: Any, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        page.savefig(temporary, format="svg")
        temporary.replace(target)
    except OSError as fault:
        raise unwritten(target, fault) from fault
    finally:
        with suppress(OSError):
            temporary.unlink()
