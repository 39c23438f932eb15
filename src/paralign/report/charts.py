"""Charts of a result for papers, issues and reviews; nothing is judged here.

PNG or SVG by matplotlib (the extra ``plot``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import UsageError, one_line, shortened, unwritten
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.report.series import marked, spread

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paralign.report.told import PairRow, StageTold

Array = np.ndarray[Any, Any]

#: what a chart can be written as, by the ending of its name
FORMATS = (".png", ".svg")

#: values of a stage that have names below the axis; more could not be read
NAMED = 40

#: bins of a histogram: what half a picture of 900 columns shows
BINS = 80

#: elements that a histogram is made of; of more, evenly spread ones
ELEMENTS = 1 << 22

#: figures of one page
FIGURES = 8

#: characters of a name
NAME = 32

#: distinguishable for the colour-blind (Okabe and Ito, 2008)
REFERENCE, CANDIDATE, GOOD, BAD, OTHER = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#888888"


@dataclass(frozen=True)
class Curve:
    """One figure of both sides: steps and values of each."""

    name: str
    reference: tuple[Array, Array]
    candidate: tuple[Array, Array]


def available() -> None:
    """See that matplotlib is there.

    Raises:
        UsageError: it is not.
    """
    if find_spec("matplotlib") is None:
        raise UsageError("charts need matplotlib, which is not installed", hint="pip install 'paralign[plot]'")


def errors(stages: Sequence[StageTold]) -> Any:
    """Error, noise and error ÷ noise of every value of each stage, in the order of the report.

    Judged values are coloured by verdict.
    """
    from matplotlib.figure import Figure

    page = Figure(figsize=(9, 3.4 * len(stages)), layout="constrained")
    for axes, stage in zip(np.atleast_1d(page.subplots(len(stages), 1)), stages, strict=True):
        _errors(axes, stage)
    return page


def _errors(axes: Any, stage: StageTold) -> None:
    pairs = [pair for pair in stage.pairs if pair.error is not None]
    places = np.arange(len(pairs))
    _plot(axes, "error", [p.error for p in pairs], "o", CANDIDATE)
    _plot(axes, "noise", [p.noise for p in pairs], "_", REFERENCE)
    for verdict, colour in ((ALIGNED, GOOD), (UNDERPOWERED, OTHER), (DIVERGED, BAD)):
        judged = [x for x, pair in zip(places, pairs, strict=True) if pair.judged and pair.verdict == verdict]
        if judged:
            axes.plot(
                judged, [1.02] * len(judged), "s", transform=axes.get_xaxis_transform(), clip_on=False, color=colour, label=verdict, ms=3
            )
    if any(_has_logarithm(pair.error) for pair in pairs):
        axes.set_yscale("log")
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no value has an error", transform=axes.transAxes, ha="center", fontsize=9)
    axes.set_ylabel("relative L2", fontsize=8)
    axes.set_title(_plain(f"{stage.name}: {stage.verdict}{_unseen(stage, pairs)}"), fontsize=9, pad=10)
    if len(pairs) <= NAMED:
        axes.set_xticks(places, [_plain(shortened(pair.key, NAME)) for pair in pairs], rotation=60, ha="right", fontsize=6)
    else:
        axes.set_xlabel(f"{len(pairs)} values in their order", fontsize=8)
    if pairs:
        axes.legend(fontsize=7)


def _plot(axes: Any, name: str, values: Sequence[float | None], style: str, colour: str) -> None:
    """Draw a figure of every pair, at the pair's place, as far as a logarithmic axis can."""
    known = [(x, y) for x, y in enumerate(values) if _has_logarithm(y)]
    if known:
        axes.plot(*zip(*known, strict=True), style, color=colour, label=name, markersize=5)


def _has_logarithm(value: float | None) -> bool:
    """Whether a logarithmic axis has a place for a value."""
    if value is None:
        return False
    return math.isfinite(value) and value > 0


def _unseen(stage: StageTold, pairs: list[PairRow]) -> str:
    """What a logarithmic axis cannot show, in numbers: silence would look like success."""
    zero = sum(pair.error == 0 for pair in pairs)
    infinite = sum(pair.error is not None and not math.isfinite(pair.error) for pair in pairs)
    missing = len(stage.pairs) - len(pairs)
    parts = [(zero, "equal, not drawn"), (infinite, "without a finite error, not drawn"), (missing, "not measured")]
    told = ", ".join(f"{count} {what}" for count, what in parts if count)
    return f" ({told})" if told else ""


def histograms(title: str, reference: Array, candidate: Array) -> Any:
    """Both sides' values of one tensor, and how far they are apart by element.

    The latter where the shapes are the same.
    """
    from matplotlib.figure import Figure

    page = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = page.subplots(1, 2)
    sides = [_finite(reference), _finite(candidate)]
    edges = np.histogram_bin_edges(np.concatenate(sides) if sum(map(len, sides)) else np.zeros(1), BINS)
    styles: list[dict[str, Any]] = [{"alpha": 0.5, "color": REFERENCE}, {"histtype": "step", "color": CANDIDATE}]
    for name, values, whole, style in zip(("reference", "candidate"), sides, (reference, candidate), styles, strict=True):
        left.hist(values, edges, label=f"{name}: {whole.size} elements, {whole.size - _count(whole)} not finite", **style)
    left.set_title("values", fontsize=9)
    left.legend(fontsize=7)
    _difference(right, reference, candidate)
    page.suptitle(_plain(shortened(title, 100)), fontsize=10)
    return page


def _difference(axes: Any, reference: Array, candidate: Array) -> None:
    if reference.shape != candidate.shape:
        axes.set_title(f"shapes differ: {list(reference.shape)} and {list(candidate.shape)}", fontsize=9)
        axes.set_axis_off()
        return
    wide = np.complex128 if np.iscomplexobj(reference) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):  # infinite on both sides: no number, left out below
        apart = np.abs(reference.astype(wide) - candidate).reshape(-1)
    apart = apart[np.isfinite(apart)]
    axes.set_title(f"absolute difference; {int((apart == 0).sum())} of {reference.size} elements equal", fontsize=9)
    if (apart > 0).any():
        spread = np.log10(apart[apart > 0])
        axes.hist(spread, BINS, color=OTHER)
    axes.set_xlabel("log10", fontsize=8)


def _count(values: Array) -> int:
    return int(np.isfinite(values).sum())


def _finite(values: Array) -> Array:
    flat = np.abs(values).reshape(-1) if np.iscomplexobj(values) else values.reshape(-1)
    if flat.size > ELEMENTS:
        flat = flat[:: -(-flat.size // ELEMENTS)]
    flat = flat.astype(np.float64)
    return np.asarray(flat[np.isfinite(flat)])


def curves(found: Sequence[Curve]) -> Any:
    """Figures of two trainings, one over the other."""
    from matplotlib.figure import Figure

    shown = found[:FIGURES]
    page = Figure(figsize=(9, 2.8 * len(shown)), layout="constrained")
    for axes, curve in zip(np.atleast_1d(page.subplots(len(shown), 1)), shown, strict=True):
        for name, (steps, values), style in (("reference", curve.reference, "-"), ("candidate", curve.candidate, "--")):
            kept = spread(len(values))
            colour = REFERENCE if name == "reference" else CANDIDATE
            look: dict[str, Any] = {"color": colour, "marker": ".", "markevery": marked(values[kept]), "linewidth": 1}
            axes.plot(steps[kept], values[kept], style, label=name, **look)
        axes.set_title(_plain(shortened(curve.name, NAME)), fontsize=9)
        axes.legend(fontsize=7)
    if len(found) > FIGURES:
        page.supxlabel(f"{len(found) - FIGURES} more figures are not drawn", fontsize=8)
    return page


def _plain(text: str) -> str:
    """Text without control characters and without matplotlib's formulas."""
    return one_line(text).replace("$", r"\$")


def save(page: Any, target: Path, *, overwrite: bool = False) -> None:
    """Write a chart; its name says PNG or SVG.

    Raises:
        UsageError: it is there already, or the name ends otherwise.
        WriteFailed: it cannot be written.
    """
    if target.suffix.lower() not in FORMATS:
        raise UsageError(f"a chart is a {' or '.join(FORMATS)} file", where=str(target), hint="name it so")
    if target.exists() and not overwrite:
        raise UsageError("the file is there already", where=str(target), hint="name another one, or give --overwrite")
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        page.savefig(temporary, format=target.suffix[1:].lower(), dpi=120)
        temporary.replace(target)
    except OSError as fault:
        raise unwritten(target, fault, "the chart") from fault
