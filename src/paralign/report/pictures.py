"""Pictures of predictions, the reference's and the candidate's side by side.

``result/pictures/predict_0.png`` and so on.

matplotlib draws them (``pip install 'paralign[plot]'``); without it there are none, and a note says so.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import one_line, shortened, unwritten

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import CheckResult, Record

Array = np.ndarray[Any, Any]

#: the folder below the output folder
FOLDER = "pictures"

#: pixels of a side from which an array of two axes is shown as a picture, not as rows
PICTURE = 16

#: entries of a vector that are shown, the greatest first; rows of boxes; lines of text: what a reader takes in
BARS, BOXES, TEXTS = 5, 50, 12

#: numbers of a box: two corners, and perhaps score and class
_CORNERS, _WIDEST = 4, 6

#: inches and dots of an inch of a page
_SIZE, _DOTS = (11.0, 7.0), 90

#: captures that hold predictions, and how their records are called
_SOURCES = {"infer": "predict_", "infer-program": "command_"}


def draw(result: CheckResult, captures: dict[str, tuple[Capture, Capture]], folder: Path, most: int) -> None:
    """Write a picture for each predicted path.

    Add to the notes of ``infer`` where they are, or why there are none.

    Args:
        result: of the check; nothing is judged here.
        captures: of the check, by name.
        folder: the check's output folder.
        most: paths of which pictures are drawn; 0 for none.

    Raises:
        WriteFailed: a file cannot be written.
    """
    stage = next((stage for stage in result.stages if stage.name == "infer"), None)
    names = [(source, name) for source in _SOURCES if source in captures for name in _names(captures[source][0], _SOURCES[source])]
    if stage is None or not names or not most:
        return
    if find_spec("matplotlib") is None:
        stage.notes.append("no pictures of the predictions: matplotlib is not installed (pip install 'paralign[plot]')")
        return
    target = folder / FOLDER
    try:
        target.mkdir(exist_ok=True)
        for old in (path for prefix in _SOURCES.values() for path in target.glob(f"{prefix}*.png")):
            old.unlink()
        for source, name in names[:most]:
            _page([c.select(name=name) for c in captures[source]], captures[source], target / f"{name}.png")
    except OSError as fault:
        raise unwritten(target, fault, "a picture") from fault
    told = f"pictures of {min(most, len(names))} of {len(names)} predictions: {target}"
    if told not in stage.notes:  # a check with a search for edits is written twice
        stage.notes.append(told)


def _names(capture: Capture, prefix: str) -> list[str]:
    return list(dict.fromkeys(record.name for record in capture.records if record.name.startswith(prefix)))


def _page(records: list[list[Record]], captures: tuple[Capture, Capture], target: Path) -> None:
    """Draw one path, a column for each side.

    Above is the picture with what was found in it, below are the greatest scores.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    page = Figure(figsize=_SIZE, dpi=_DOTS)
    canvas = FigureCanvasAgg(page)
    above, below = page.subplots(2, 2, height_ratios=[2, 1]) if hasattr(page, "subplots") else ([], [])
    for column, (side, found, capture) in enumerate(zip(("reference", "candidate"), records, captures, strict=True)):
        values = {r.leaf: capture.array(r) for r in found if r.location is not None and "line_" not in r.leaf}
        texts = [*_texts(found), *_numbers(values)]
        _show(above[column], _source(found), values)
        above[column].set_title("\n".join([side, *(shortened(_plain(t), 80) for t in texts[:TEXTS])]), fontsize=8)
        _bars(below[column], values)
    page.tight_layout()
    canvas.print_png(str(target))


def _texts(found: list[Record]) -> list[str]:
    """The texts that a side predicted, each with its name unless it is a printed line."""
    texts = []
    for record in found:
        if record.text is not None:
            named = record.leaf and not record.leaf.startswith("line_")
            texts.append(f"{record.leaf}: {record.text}" if named else str(record.text))
    return texts


def _numbers(values: dict[str, Any]) -> list[str]:
    """The single numbers that a side predicted."""
    single = {leaf: value for leaf, value in values.items() if value.size == 1 and value.dtype.kind in "fiub"}
    return [f"{leaf or 'value'}: {float(value.reshape(-1)[0]):.6g}" for leaf, value in single.items()]


def _plain(text: str) -> str:
    """Text without control characters and without matplotlib's formulas."""
    return one_line(text).replace("$", r"\$")


def _source(found: list[Record]) -> str:
    return str(found[0].attrs.get("path", "")) if found else ""


def _show(axes: Any, path: str, values: dict[str, Array]) -> None:
    """The input picture with boxes, or the picture that was predicted beside it."""
    axes.set_axis_off()
    given = _opened(path)
    predicted = _first_picture(values)
    if given is not None:
        axes.imshow(given, cmap="gray")
    if predicted is not None:
        extent = None if given is None else (0, given.shape[1], given.shape[0], 0)
        axes.imshow(predicted, extent=extent, alpha=1.0 if given is None else 0.6, interpolation="nearest")
        return
    for boxes in values.values():
        if boxes.ndim == 2 and _CORNERS <= boxes.shape[1] <= _WIDEST and boxes.dtype.kind in "fiu":  # noqa: PLR2004 - rows of boxes
            _boxes(axes, boxes)


def _first_picture(values: dict[str, Array]) -> Array | None:
    """The first of the predicted values that is a picture."""
    for value in values.values():
        picture = _picture(value)
        if picture is not None:
            return picture
    return None


def _opened(path: str) -> Array | None:
    """The pixels of a path, where it is a picture that matplotlib reads."""
    from matplotlib.image import imread

    try:
        return np.asarray(imread(path))
    except (OSError, ValueError, SyntaxError, TypeError):  # Pillow raises SyntaxError for some files that are no pictures
        return None


def _picture(value: Array) -> Array | None:
    """A predicted picture, mask or heat map: the last two axes, of classes the greatest.

    None for anything else.
    """
    flat = np.squeeze(value)
    if flat.dtype.kind not in "fiub":
        return None
    if flat.ndim == 3 and min(flat.shape[1:]) >= PICTURE:  # noqa: PLR2004 - classes, height and width
        return np.asarray(flat.argmax(0))
    return flat.astype(np.float64) if flat.ndim == 2 and min(flat.shape) >= PICTURE else None  # noqa: PLR2004 - height and width


def _boxes(axes: Any, boxes: Array) -> None:
    from matplotlib.patches import Rectangle

    for row in boxes[:BOXES]:
        left, top, right, bottom = (float(v) for v in row[:_CORNERS])
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="red"))


def _bars(axes: Any, values: dict[str, Array]) -> None:
    """The greatest entries of the first vector."""
    found = _first_vector(values)
    if found is None:
        axes.set_axis_off()
        return
    leaf, vector = found
    order = np.argsort(-vector.astype(np.float64), kind="stable")[:BARS]
    axes.barh([str(int(n)) for n in order][::-1], [float(vector[n]) for n in order][::-1])
    axes.set_title(f"greatest of {_plain(leaf) or 'the result'}", fontsize=8)


def _first_vector(values: dict[str, Array]) -> tuple[str, Array] | None:
    """The first of the predicted values that is several numbers along one axis."""
    for leaf, value in values.items():
        squeezed = np.squeeze(value)
        if squeezed.ndim == 1 and value.size > 1 and value.dtype.kind in "fiu":
            return leaf, squeezed
    return None
