"""What turns one sample into the other, by what samples are.

Rows of time, token numbers, boxes, frames.

Every rule must hold in all samples that it is given; one sample alone suggests it, two or more prove it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paralign.locate.data.distances import EQUAL, apart
from paralign.locate.data.films import exchanged_channels, frames_first, is_doubtful
from paralign.locate.data.moved_content import placed, told
from paralign.model import Finding

Array = np.ndarray[Any, Any]
Pairs = list[tuple[Array, Array]]

#: how many steps a window may begin later
STEPS = 48

#: the least rows, tokens or frames that must agree
LEAST = 3

#: frames that a sentence names
FRAMES = 6

#: axes of a series (time, columns), of boxes, and the least of a video (time, height, width)
COLUMNS, BOX, VIDEO = 2, 4, 3

Rule = Callable[[Pairs], "tuple[str, str, str] | None"]


def explain(leaf: str, pairs: Pairs) -> Finding | None:
    """A finding that explains all pairs of reference and candidate; None where no rule does.

    Args:
        leaf: what the part of a sample is called, '' for a sample that is one array.
        pairs: of numbers, those that differ.
    """
    if not pairs or any(a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub" for a, b in pairs):
        return None
    whole = all(a.dtype.kind in "iub" and b.dtype.kind in "iub" for a, b in pairs)
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs]
    for rule in _rules(wide, whole=whole):
        found = rule(wide)
        if found is not None:
            name, cause, fix = found
            what = f"{leaf}: " if leaf else ""
            return Finding(f"data/{name}", f"{what}{cause}", fix, proven=len(pairs) > 1, error_before=apart(*wide[0]), error_after=0.0)
    return None


def _rules(pairs: Pairs, *, whole: bool) -> list[Rule]:
    dimensions = {array.ndim for pair in pairs for array in pair}
    if len(dimensions) != 1:
        return []
    axes = dimensions.pop()
    if axes == 1:
        return [_mask, _special, _padding, _token_offset, _truncated, _length, _window] if whole else [_length, _window, _elsewhere]
    if axes == COLUMNS and all(array.shape[1] == BOX for pair in pairs for array in pair):
        return [_box_form, _box_scale, _box_order, _fewer_boxes, _length, _window]
    if axes == COLUMNS and whole:
        return [_mask, _padding, _token_offset, _length, _window]
    if axes == COLUMNS:
        return [_length, _window, _columns, _scaler, _elsewhere]
    return (
        [_channels, _length, _window, _frames, _elsewhere] if axes > VIDEO else [_elsewhere]
    )  # three axes are a picture, whose shift is a crop


def frames(reference: Array, candidate: Array) -> tuple[int, int] | None:
    """The first frame from which two videos part, and how many differ; else None."""
    if reference.ndim <= VIDEO or candidate.ndim != reference.ndim or is_doubtful(reference.shape):
        return None
    reference, candidate = frames_first(reference), frames_first(candidate)
    if reference.shape[1:] != candidate.shape[1:] or min(len(reference), len(candidate)) < LEAST:
        return None
    count = min(len(reference), len(candidate))
    unequal = [n for n in range(count) if apart(reference[n].astype(np.float64), candidate[n].astype(np.float64)) > EQUAL]
    if not unequal:
        return (count, abs(len(reference) - len(candidate))) if len(reference) != len(candidate) else None
    return unequal[0], len(unequal)


# -- time --------------------------------------------------------------------------------------------------------------------------


def _window(pairs: Pairs) -> tuple[str, str, str] | None:
    """The candidate's rows are the reference's from some steps on, in all samples by as many."""
    pairs = _in_time(pairs)
    if any(a.shape[1:] != b.shape[1:] for a, b in pairs):
        return None
    if all(np.isin(a, (0, 1)).all() for a, _ in pairs):
        return None  # a mask looks moved where another number of ones is in it
    for steps in [s for n in range(1, STEPS) for s in (n, -n)]:
        if all(_moved(a, b, steps) for a, b in pairs):
            cause = f"the window begins {steps} steps later than the reference's"
            if steps < 0:
                cause = f"the window begins {-steps} steps earlier than the reference's"
            first, second = map(len, pairs[0])
            if first != second and len({(len(a), len(b)) for a, b in pairs}) == 1:
                cause = f"{cause}, and has {second} steps against the reference's {first}"
            return "window", cause, "compare where a window begins: how its start follows from the index, and overlaps"
    return None


def _in_time(pairs: Pairs) -> Pairs:
    """Pairs with time along the first axis."""
    if all(array.ndim > VIDEO for pair in pairs for array in pair):
        return [(frames_first(a), frames_first(b)) for a, b in pairs]
    return pairs


def _length(pairs: Pairs) -> tuple[str, str, str] | None:
    """One side's rows are the first or the last of the other's: lengths differ alone."""
    pairs = _in_time(pairs)
    if any(a.shape[1:] != b.shape[1:] or len(a) == len(b) or min(len(a), len(b)) < LEAST for a, b in pairs):
        return None
    for end in ("first", "last"):
        parts = [_parted(a, b, end) for a, b in pairs]
        if not all(apart(kept, short) <= EQUAL for kept, _, short in parts) or not any(np.ptp(short) for _, _, short in parts):
            continue
        further = {float(value) for _, rest, _ in parts for value in np.unique(rest)[:2]}
        said, undo = "the series begin at the same step and have other lengths", "take as many steps as the reference does"
        if end == "last":
            said = "the series end at the same step and have other lengths"
        if len(further) == 1:
            said, undo = f"padded with {further.pop():g} on one side", "pad to the reference's length, or do not pad"
            name = "padding"
        else:
            name = "length"
        if len({(len(a), len(b)) for a, b in pairs}) == 1:
            said = f"{said}: {len(pairs[0][0])} steps against the candidate's {len(pairs[0][1])}"
        return name, said, undo
    return None


def _parted(reference: Array, candidate: Array, end: str) -> tuple[Array, Array, Array]:
    """The rows that the shorter one should be, the longer one's further rows, the shorter one."""
    short, long = sorted((reference, candidate), key=len)
    if end == "first":
        return long[: len(short)], long[len(short) :], short
    return long[-len(short) :], long[: -len(short)], short


def _channels(pairs: Pairs) -> tuple[str, str, str] | None:
    """The channels of a clip in another order."""
    found = exchanged_channels(pairs)
    if found is None:
        return None
    axis, order = found
    numbers = ", ".join(map(str, order))
    if is_doubtful(pairs[0][0].shape):
        cause = f"the channels or frames along axis {axis} are in another order: the candidate's are the reference's {numbers}"
        return "channels", cause, "take channels and frames in the reference's order"
    cause = f"the channels (axis {axis}) are in another order: the candidate's are the reference's {numbers}"
    return "channels", cause, "reverse the channels on one side: OpenCV reads BGR, PIL RGB"


def _moved(reference: Array, candidate: Array, steps: int) -> bool:
    first, second = (reference[steps:], candidate) if steps > 0 else (reference, candidate[-steps:])
    count = min(len(first), len(second))
    if count < LEAST or count * 2 < min(len(reference), len(candidate)):
        return False
    first, second = first[:count], second[:count]
    return bool(np.ptp(first) > 0) and apart(first, second) <= EQUAL


def _frames(pairs: Pairs) -> tuple[str, str, str] | None:
    """Other frames of the same film, in all samples the same ones."""
    if all(is_doubtful(a.shape) for a, _ in pairs):
        return None
    pairs = _in_time(pairs)
    if any(a.shape[1:] != b.shape[1:] for a, b in pairs):
        return None
    taken = [_same_frames(a, b) for a, b in pairs]
    first = taken[0]
    if len(first) < LEAST or any(each != first for each in taken) or all(own == other for own, other in first):
        return None
    moved = [each for each in first if each[0] != each[1]]
    own, theirs = (", ".join(str(each[side]) for each in moved[:FRAMES]) + (", …" if len(moved) > FRAMES else "") for side in (0, 1))
    cause = f"other frames: the candidate's frames {own} are the reference's {theirs}"
    return "frames", cause, "take frames as the reference does: first frame, stride, number, rounding of their places, direction"


def _same_frames(reference: Array, candidate: Array) -> list[tuple[int, int]]:
    """Frames of the candidate that are frames of the reference: the numbers on both sides."""
    found = []
    for own, frame in enumerate(candidate):
        fits = [n for n, other in enumerate(reference) if np.ptp(frame) > 0 and apart(other, frame) <= EQUAL]
        if fits:
            found.append((own, min(fits, key=lambda n, own=own: abs(n - own))))  # type: ignore[misc]
    return found


def _columns(pairs: Pairs) -> tuple[str, str, str] | None:
    """The same columns in another order."""
    if any(a.shape != b.shape for a, b in pairs) or not 1 < pairs[0][0].shape[1] <= 1000:  # noqa: PLR2004 - columns of a table
        return None
    reference, candidate = pairs[0]
    order = []
    for column in candidate.T:
        fits = [n for n, other in enumerate(reference.T) if n not in order and apart(other, column) <= EQUAL]
        if not fits:
            return None
        order.append(fits[0])
    if order == sorted(order) or not all(apart(a[:, order], b) <= EQUAL for a, b in pairs):
        return None
    shown = ", ".join(map(str, order[:10])) + (" …" if len(order) > 10 else "")  # noqa: PLR2004 - what a line holds
    return (
        "columns",
        f"the columns are in another order: the candidate's are the reference's {shown}",
        "select columns by name, in one order",
    )


def _scaler(pairs: Pairs) -> tuple[str, str, str] | None:
    """Each column scaled and shifted, in all samples alike."""
    if any(a.shape != b.shape for a, b in pairs):
        return None
    reference, candidate = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    if len(reference) < 2 * LEAST:
        return None
    centred = reference - reference.mean(axis=0)
    spread = (centred**2).sum(axis=0)
    slopes = np.where(spread > 0, (centred * (candidate - candidate.mean(axis=0))).sum(axis=0) / np.where(spread > 0, spread, 1), 1.0)
    offsets = candidate.mean(axis=0) - slopes * reference.mean(axis=0)
    if not slopes.all() or apart(candidate, slopes * reference + offsets) > EQUAL:
        return None
    worst = int(np.abs(np.log(np.abs(slopes))).argmax()) if (np.abs(slopes - 1) > EQUAL).any() else int(np.abs(offsets).argmax())
    line = f"column {worst} of the candidate is the reference's times {slopes[worst]:.6g}"
    if abs(offsets[worst]) > EQUAL * np.abs(candidate[:, worst]).max():
        line = f"column {worst} of the candidate is the reference's times {slopes[worst]:.6g} plus {offsets[worst]:.6g}"
    return (
        "scaler",
        f"the columns are scaled with other constants: {line}",
        "fit the scaler to the same rows on both sides (those for training), column by column",
    )


# -- content -----------------------------------------------------------------------------------------------------------------------


def _elsewhere(pairs: Pairs) -> tuple[str, str, str] | None:
    """The same content, padded at another side or with another value, or shifted."""
    if any(a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()) for a, b in pairs):
        return None
    found = [placed(a, b) for a, b in pairs]
    first = found[0]
    if first is None or any(each is None or each.rule() != first.rule() for each in found):
        return None
    return (first.rule(), *told(first))


# -- tokens ------------------------------------------------------------------------------------------------------------------------


def _mask(pairs: Pairs) -> tuple[str, str, str] | None:
    """Masks of zeros and ones: the other way round, or one that leaves nothing out."""
    if any(a.shape != b.shape or not np.isin(a, (0, 1)).all() or not np.isin(b, (0, 1)).all() for a, b in pairs):
        return None
    if all(np.array_equal(b, 1 - a) for a, b in pairs) and any(np.ptp(a) for a, _ in pairs):
        cause = "a mask the other way round: the candidate has 1 where the reference has 0"
        return "mask-inverted", cause, "mark what counts as the reference does: 1 for what is kept, or for what is left out"
    values = {float(value) for _, other in pairs for value in np.unique(other)}
    if len(values) == 1 and all(np.ptp(one) for one, _ in pairs):
        cause = f"the candidate's mask is {values.pop():g} everywhere, the reference's is not"
        return "mask-constant", cause, "mark padding in the mask as the reference does"
    return None


def _token_offset(pairs: Pairs) -> tuple[str, str, str] | None:
    if any(a.shape != b.shape or (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()) for a, b in pairs):
        return None
    steps = {float(step) for a, b in pairs for step in np.unique(b - a)}
    changed = steps - {0.0}
    if len(changed) != 1:
        return None
    step = changed.pop()
    kept = {float(v) for a, b in pairs for v in np.unique(a[a == b])}
    if kept & {float(v) for a, b in pairs for v in np.unique(a[a != b])}:
        return None
    told = f", but for {_numbers(kept)}" if kept else ""
    return (
        "token-offset",
        f"the candidate's numbers are the reference's plus {step:g}{told}"
        if step > 0
        else f"the candidate's numbers are the reference's minus {-step:g}{told}",
        "count from the same number on both sides",
    )


def _numbers(values: set[float]) -> str:
    return ", ".join(f"{v:g}" for v in sorted(values)[:5])


def _stripped(row: Array, pad: float, side: str) -> Array:
    """A row without its padding."""
    kept = np.flatnonzero(row != pad)
    if not len(kept):
        return row[:0]
    return row[: kept[-1] + 1] if side == "end" else row[kept[0] :]


def _padding(pairs: Pairs) -> tuple[str, str, str] | None:
    """The same tokens, padded at another end, with another number or to another length."""
    rows = [(one, other) for a, b in pairs for one, other in _row_pairs(a, b)]
    if not rows:
        return None
    pads = [
        [float(row[0]) for row, _ in rows] + [float(row[-1]) for row, _ in rows],
        [float(r[0]) for _, r in rows] + [float(r[-1]) for _, r in rows],
    ]
    for first in sorted(set(pads[0]), key=pads[0].count, reverse=True)[:4]:
        for second in sorted(set(pads[1]), key=pads[1].count, reverse=True)[:4]:
            for ends in (("end", "end"), ("end", "start"), ("start", "end"), ("start", "start")):
                bare = [(_stripped(a, first, ends[0]), _stripped(b, second, ends[1])) for a, b in rows]
                padded = any(len(x) < len(a) or len(y) < len(b) for (x, y), (a, b) in zip(bare, rows, strict=True))
                if padded and all(len(x) >= 1 and np.array_equal(x, y) for x, y in bare) and any(len(x) >= LEAST for x, _ in bare):
                    return _padded(first, second, ends, rows)
    return None


def _row_pairs(a: Array, b: Array) -> list[tuple[Array, Array]]:
    if a.ndim == 1:
        if len(a) and len(b):
            return [(a, b)]
        return []
    if len(a) == len(b) and a.shape[1] and b.shape[1]:
        return list(zip(a, b, strict=True))
    return []


def _padded(first: float, second: float, ends: tuple[str, str], rows: Pairs) -> tuple[str, str, str]:
    said = []
    if ends[0] != ends[1]:
        said.append(f"at the {ends[0]} in the reference, at the {ends[1]} in the candidate")
    if first != second:
        said.append(f"with {first:g} in the reference, with {second:g} in the candidate")
    lengths = [len(row) for row in rows[0]]
    if lengths[0] != lengths[1]:
        said.append(f"to a length of {lengths[0]} in the reference, of {lengths[1]} in the candidate")
    return "padding", f"the tokens agree, the padding does not: {'; '.join(said)}", "pad as the reference does: side, number, length"


def _special(pairs: Pairs) -> tuple[str, str, str] | None:
    """One token more or less at an end, the same in all samples."""
    for side, other in (("reference", "candidate"), ("candidate", "reference")):
        swapped = pairs if side == "reference" else [(b, a) for a, b in pairs]
        for end in ("beginning", "end"):
            cut = slice(1, None) if end == "beginning" else slice(None, -1)
            if all(len(a) == len(b) + 1 and len(b) >= LEAST and np.array_equal(a[cut], b) for a, b in swapped):
                token = {float(a[0] if end == "beginning" else a[-1]) for a, _ in swapped}
                if len(token) == 1:
                    cause = f"the {side} has the token {token.pop():g} at the {end}, the {other} has not"
                    return "special-token", cause, "add the same special tokens on both sides"
    return None


def _truncated(pairs: Pairs) -> tuple[str, str, str] | None:
    for short in (0, 1):
        for end in ("end", "beginning"):
            if all(_is_cut(pair[1 - short], pair[short], end) for pair in pairs):
                lengths = sorted({len(pair[short]) for pair in pairs})
                cause = (
                    f"the {('reference', 'candidate')[short]} is cut off at the {end}, at a length of {', '.join(map(str, lengths[:3]))}"
                )
                return "truncation", cause, "cut texts to the same length, at the same end"
    return None


def _is_cut(longer: Array, shorter: Array, end: str) -> bool:
    if not LEAST <= len(shorter) < len(longer):
        return False
    return bool(np.array_equal(longer[: len(shorter)] if end == "end" else longer[-len(shorter) :], shorter))


# -- boxes -------------------------------------------------------------------------------------------------------------------------


def _corners(boxes: Array) -> Array:
    return boxes


def _corner_size(boxes: Array) -> Array:
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)


def _centre_size(boxes: Array) -> Array:
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def _from_corner_size(boxes: Array) -> Array:
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def _from_centre_size(boxes: Array) -> Array:
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


#: how boxes are written: name -> from corners, to corners
_FORMS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "two corners": (_corners, _corners),
    "a corner and the size": (_corner_size, _from_corner_size),
    "the centre and the size": (_centre_size, _from_centre_size),
}


def _box_form(pairs: Pairs) -> tuple[str, str, str] | None:
    filled = [(a, b) for a, b in pairs if len(a) and a.shape == b.shape]
    if len(filled) < len([a for a, _ in pairs if len(a)]) or not filled:
        return None
    if all(apart(a[:, [1, 0, 3, 2]], b) <= EQUAL for a, b in filled):
        return "box-axes", "x and y of the boxes are exchanged", "write boxes in the reference's order of x and y"
    for name, (_, corners) in _FORMS.items():
        for other, (form, _) in _FORMS.items():
            if name != other and all(apart(form(corners(a)), b) <= EQUAL for a, b in filled):
                cause = f"boxes are {name} in the reference, {other} in the candidate"
                return "box-form", cause, "convert boxes to the reference's form where they are read"
    return None


def _box_scale(pairs: Pairs) -> tuple[str, str, str] | None:
    """Boxes in pixels on one side, in shares of the picture on the other.

    A factor for x and one for y, sample by sample.
    """
    filled = [(a, b) for a, b in pairs if len(a) and a.shape == b.shape]
    factors = []
    for a, b in filled:
        norm = (a**2).sum(axis=0)
        if not norm.all():
            return None
        factor = (a * b).sum(axis=0) / norm
        if not np.allclose(factor[:2], factor[2:], rtol=1e-4) or apart(factor * a, b) > EQUAL or np.allclose(factor, 1):
            return None
        factors.append(factor[:2])
    if not factors:
        return None
    shares = [bool((side >= 0).all() and (side <= 1).all()) for side in (np.concatenate([p[n] for p in filled]) for n in (0, 1))]
    if shares[0] != shares[1]:
        cause = f"boxes are shares of the picture in the {'reference' if shares[0] else 'candidate'}, pixels in the other"
        return "box-unit", cause, "scale boxes by width and height on both sides or on neither"
    cause = f"boxes are scaled: the candidate's x is the reference's times {factors[0][0]:.6g}, y times {factors[0][1]:.6g}"
    return "box-scale", cause, "scale boxes with the picture that they lie in"


def _box_order(pairs: Pairs) -> tuple[str, str, str] | None:
    if any(a.shape != b.shape for a, b in pairs) or not all(apart(_sorted(a), _sorted(b)) <= EQUAL for a, b in pairs):
        return None
    return "box-order", "the same boxes in another order", "keep the order of the annotations, and that of labels with it"


def _sorted(boxes: Array) -> Array:
    return boxes[np.lexsort(np.round(boxes, 6).T[::-1])] if len(boxes) else boxes


def _fewer_boxes(pairs: Pairs) -> tuple[str, str, str] | None:
    for fewer, side in ((1, "candidate"), (0, "reference")):
        uneven = [pair for pair in pairs if len(pair[fewer]) < len(pair[1 - fewer])]
        if len(uneven) == len(pairs) and all(_among(pair[fewer], pair[1 - fewer]) for pair in pairs):
            left = sum(len(pair[1 - fewer]) - len(pair[fewer]) for pair in pairs)
            cause = f"the {side} leaves out {left} boxes in {len(pairs)} samples, the others agree"
            return "boxes-left-out", cause, "compare which annotations are filtered: crowds, difficult ones, small or empty boxes"
    return None


def _among(few: Array, many: Array) -> bool:
    return all(any(apart(other, box) <= EQUAL for other in many) for box in few)
