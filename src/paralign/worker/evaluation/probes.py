"""Probes of a metric or a loss.

They are the reference's outputs and labels, changed so that rare cases show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import numpy as np

from paralign.errors import message_of
from paralign.worker.datasets.data import add_leaves
from paralign.worker.evaluation.metrics import Arrays, as_tensors, joined_batches
from paralign.worker.protocol import Evaluate, Probed, Probes
from paralign.worker.sides import stateful

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session

#: how many ways equal scores are told apart: chance makes two of them agree on every sample once in 2**samples
BROKEN = 4

#: what a label is called that is to be left out, besides all negative numbers
IGNORED = 255

#: the greatest score of the probe ``extreme``: beyond what exp() of float32 can hold (88)
EXTREME = 1e4

#: root mean squares of scores, as of a model that knows nothing yet and of one that does; each sample is taken once with each
SIZES = (0.05, 0.13, 0.3, 0.45, 0.7, 1.0, 1.6)

#: bytes of all outputs and labels, and samples, beyond which each is taken once: a loss may hold every sample against every other
MOST, ROWS = 1 << 26, 4_096

#: ranks that labels take in turn; how far below the best a score may be: Paddle clips at 64; relative difference of scores that are apart
RANKS, NEAR, APART = 8, 50.0, 1e-6

#: scores this many times the median one mask something
MASKED = 100.0


@dataclass
class Given:
    """Outputs and labels of all batches.

    ``scores`` and ``target`` are the leaves of classes, ``axis`` that of classes in the scores. ``ignored`` is a label to be left out that
    these labels do not have; ``occurs`` says whether labels of another split do.
    """

    outputs: Arrays
    labels: Arrays
    scores: Optional[str] = None
    target: Optional[str] = None
    axis: int = 0
    ignored: Optional[int] = None
    occurs: bool = False

    @property
    def values(self) -> Any:
        """The scores as an array."""
        return self.outputs[1][self.scores or ""].array

    @property
    def numbers(self) -> Any:
        """The classes as an array."""
        return self.labels[1][self.target or ""].array


def find(outputs: Arrays, labels: Arrays) -> Given:
    """Find which outputs are scores of classes, and which labels their numbers.

    Labels have the scores' shape without the axis of classes.

    Labels must be whole numbers that fit the axis, those to be ignored aside.
    """
    for path, value in outputs[1].items():
        for name, label in labels[1].items():
            if value.array.dtype.kind != "f" or label.array.dtype.kind not in "iu" or not label.array.size:
                continue
            real = label.array[(label.array >= 0) & (label.array != IGNORED)]
            for axis in range(1, value.array.ndim):
                shape = value.array.shape[:axis] + value.array.shape[axis + 1 :]
                classes = value.array.shape[axis]
                if shape == label.array.shape and classes > 1 and (not real.size or real.max() < classes):
                    return Given(outputs, labels, path, name, axis)
    return Given(outputs, labels)


def probes(session: Session, writer: CaptureWriter, options: Probes, values: Dict[str, Capture]) -> Probed:
    """The side's function on every probe, as ``probe_<name>``."""
    evaluation = values["evaluation"]
    together = joined_batches(evaluation, Evaluate.answer(evaluation).batches)
    answer = Probed()
    if together is None:
        answer.left_out["all"] = "the samples do not lie along the first axis of all outputs and labels"
        return answer
    given = find(*together)
    given.ignored, given.occurs = options.ignored, options.occurs
    if given.scores is not None:
        best = np.sort(np.moveaxis(given.values, given.axis, -1), axis=-1)[..., -2:]
        answer.tied, answer.rows = int((best[..., 0] == best[..., 1]).sum()), int(best[..., 0].size)
    function = stateful.function_of(session) if options.function == "metric" else session.function("loss")
    with session.adapter.no_grad():
        for name, make in MAKERS.items():
            made = make(given)
            if isinstance(made, str):
                answer.left_out[name] = made
                continue
            for number, arrays in enumerate(made):
                key = name if number == 0 else f"{name}_broken_{number}"
                answer.probes[key] = _probe(session, writer, f"probe_{key}", function, arrays)
    return answer


def _probe(session: Session, writer: CaptureWriter, name: str, function: Callable[..., Any], arrays: Tuple[Arrays, Arrays]) -> str:
    session.seed()
    try:
        result = function(as_tensors(session, arrays[0]), as_tensors(session, arrays[1]))
        add_leaves(session, writer, name, result, role="scalar")
    except Exception as error:  # noqa: BLE001 - the user's function may refuse the probe in any way; the caller compares who refused
        lines = message_of(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"
    return "ok"


Made = "List[Tuple[Arrays, Arrays]] | str"
NO_CLASSES = "no output is one of scores of the classes in the labels"


def _floats(arrays: Arrays, act: Callable[[Any], Any], only: Optional[str] = None) -> Arrays:
    """Real floating leaves changed, or one of them."""
    return arrays[0], {
        path: value._replace(array=act(value.array).astype(value.array.dtype))
        if value.array.dtype.kind == "f" and value.array.size and only in (None, path)
        else value
        for path, value in arrays[1].items()
    }


def _ties(given: Given) -> Any:
    """Scores on a grid so coarse that many are equal.

    Beside them, the same with the equal ones told apart, in several ways.
    """
    scales = {
        path: float(np.abs(v.array).max()) or 1.0 for path, v in given.outputs[1].items() if v.array.dtype.kind == "f" and v.array.size
    }
    if not scales or not all(np.isfinite(scale) for scale in scales.values()):
        return "no finite floating output"
    made = [(_coarse(given.outputs, scales, None), given.labels)]
    made += [(_coarse(given.outputs, scales, np.random.RandomState(n)), given.labels) for n in range(BROKEN)]
    return made


def _coarse(outputs: Arrays, scales: Dict[str, float], random: Any) -> Arrays:
    found = {}
    for path, value in outputs[1].items():
        if path not in scales:
            found[path] = value
            continue
        array = np.round(value.array / scales[path] * 2) / 2
        if random is not None:
            array = array + (random.rand(*array.shape) - 0.5) * 0.01
        found[path] = value._replace(array=array.astype(value.array.dtype))
    return outputs[0], found


def labelled(given: Given, act: Callable[[Any], Any]) -> Tuple[Arrays, Arrays]:
    """The outputs, and the labels with the classes changed."""
    label = given.labels[1][given.target or ""]
    changed = {**given.labels[1], given.target or "": label._replace(array=act(label.array).astype(label.array.dtype))}
    return given.outputs, (given.labels[0], changed)


def _one_class(given: Given) -> Any:
    """Labels all equal to the first that is not left out: every other class is empty."""
    if given.target is None:
        return NO_CLASSES
    left_out = left_out_by_labels(given)
    counted = given.numbers if left_out is None else given.numbers[given.numbers != left_out]
    return [labelled(given, lambda a: np.full_like(a, counted.flat[0]))] if counted.size else NO_CLASSES


def _ranked(given: Given) -> Any:
    """Labels that are the second, third, … best class of their samples, in turn.

    What is left out stays so. Real samples of a model that knows nothing yet rarely have them where a place more or less decides. Scores
    far below the best are masked, or kernels clip their softmax; of equal ones the place is open. Neither gets a label.
    """
    if given.scores is None or given.target is None or not np.isfinite(given.values).all():
        return NO_CLASSES
    rows = np.moveaxis(given.values, given.axis, -1)
    order = np.argsort(-rows, axis=-1, kind="stable")
    held = np.take_along_axis(rows, order, -1)
    apart = np.abs(np.diff(held, axis=-1)) > APART * np.maximum(np.abs(held[..., 1:]), np.abs(held[..., :-1]))
    edge = np.ones((*held.shape[:-1], 1), bool)
    told = np.concatenate([edge, apart], -1) & np.concatenate([apart, edge], -1) & (held[..., :1] - held < NEAR)
    told[..., RANKS:] = False
    labels = given.numbers.copy()
    for number, place in enumerate(np.ndindex(labels.shape)):
        ranks = np.flatnonzero(told[place])
        if ranks.size:
            labels[place] = order[place][ranks[number % ranks.size]]
    left_out = (given.numbers < 0) | (given.numbers == IGNORED)
    missing = np.setdiff1d(given.numbers[~left_out], labels[~left_out])
    if missing.size and np.unique(given.numbers[~left_out]).size == rows.shape[-1]:
        return "a class that the real labels have would have none"
    return [labelled(given, lambda numbers: np.where(left_out, numbers, labels))]


def _absent_class(given: Given) -> Any:
    """The last class occurs neither in the labels nor as the best score of a sample.

    Its score changes places with the least one of each sample, so that probabilities stay probabilities.
    """
    if given.scores is None or given.target is None:
        return NO_CLASSES
    absent = given.values.shape[given.axis] - 1
    outputs = _floats(given.outputs, lambda scores: _least(scores, given.axis, absent), given.scores)
    labels = labelled(given, lambda numbers: np.where(numbers == absent, absent - 1, numbers))[1]
    return [(outputs, labels)]


def _least(scores: Any, axis: int, number: int) -> Any:
    """Scores in which a class has the least one of each sample."""
    rows = np.moveaxis(scores.copy(), axis, -1)
    place = rows.argmin(-1)[..., None]
    least, own = np.take_along_axis(rows, place, -1), rows[..., number : number + 1].copy()
    np.put_along_axis(rows, place, own, -1)
    rows[..., number : number + 1] = least
    return np.moveaxis(rows, -1, axis)


def left_out_by_labels(given: Given, labels: Any = None) -> Optional[int]:
    """The number that labels themselves use for what is left out.

    One below 0, or 255 where that is no class.

    Args:
        given: outputs, and the labels that are asked.
        labels: an array that is asked in place of these.
    """
    if given.target is None:
        return None
    numbers = given.numbers if labels is None else labels
    found = numbers[(numbers < 0) | ((numbers == IGNORED) & (given.values.shape[given.axis] <= IGNORED))]
    return int(found.flat[0]) if found.size else None


def _mostly_ignored(given: Given) -> Any:
    """All samples but the first half ignored, as the labels or the code do."""
    value = left_out_by_labels(given)
    value = given.ignored if value is None else value
    return "no label is one to be ignored" if value is None else [labelled(given, lambda a: filled(a, value, (len(a) + 1) // 2))]


def _all_ignored(given: Given) -> Any:
    """All samples ignored, where labels have such a number.

    What a function makes of none is open where no data ask.
    """
    value = left_out_by_labels(given)
    value = given.ignored if value is None and given.occurs else value
    return "no label is one to be ignored" if value is None else [labelled(given, lambda a: np.full_like(a, value))]


def filled(array: Any, value: int, begin: int) -> Any:
    """An array with one value from a row on."""
    array = array.copy()
    array[begin:] = value
    return array


def rows_of(given: Given, count: int) -> Tuple[Arrays, Arrays]:
    """The outputs and labels of the first samples."""
    parts = []
    for arrays in (given.outputs, given.labels):
        cut = {path: v._replace(array=np.ascontiguousarray(v.array[:count])) for path, v in arrays[1].items()}
        parts.append((arrays[0], cut))
    return parts[0], parts[1]


def _length(given: Given) -> int:
    return next((len(v.array) for v in given.outputs[1].values()), 0)


def _partial(given: Given) -> Any:
    """The first samples, as in a last batch that is not full."""
    count = _length(given)
    return [rows_of(given, count - max(1, count // 3))] if count > 2 else "there are fewer than 3 samples"  # noqa: PLR2004 - as said


def _single(given: Given) -> Any:
    return [rows_of(given, 1)] if _length(given) > 1 else "there is one sample"


def _empty(given: Given) -> Any:
    return [rows_of(given, 0)]


def _extreme(given: Given) -> Any:
    """Scores so large that exp() of them overflows.

    Probabilities and their logarithms have none.
    """
    if given.scores is None:
        return NO_CLASSES
    scores = given.values
    if not np.isfinite(scores).all() or (scores >= 0).all() or (scores <= 0).all():
        return "the scores are probabilities or logarithms of some"
    scale = EXTREME / float(np.abs(scores).max())
    return [(_floats(given.outputs, lambda a: a * scale, given.scores), given.labels)]


def _sized(given: Given) -> Any:
    """Every sample several times, with scores of another size each.

    Thresholds lie between them that no real score comes near.

    Probabilities and their logarithms have none, and cosines no size.
    """
    if given.scores is None:
        return NO_CLASSES
    scores = given.values
    if not np.isfinite(scores).all() or (scores >= 0).all() or (scores <= 0).all():
        return "the scores are probabilities or logarithms of some"
    heights = np.abs(scores.astype(np.float64))
    usual = heights[heights <= MASKED * np.median(heights)]  # what is masked has no size
    if heights.max() <= 1.0 or not usual.any():
        return "the scores are cosines, or none of them is known"
    leaves = [v.array for arrays in (given.outputs, given.labels) for v in arrays[1].values()]
    fits = sum(leaf.nbytes for leaf in leaves) * len(SIZES) <= MOST and len(scores) * len(SIZES) <= ROWS
    times = len(SIZES) if fits else 1
    sizes = np.resize(SIZES, len(scores) * times) / float(np.sqrt(np.mean(np.square(usual))))

    def sized(array: Any) -> Any:
        return array * sizes.reshape(-1, *[1] * (array.ndim - 1))

    outputs, labels = (_repeated(arrays, times) for arrays in (given.outputs, given.labels))
    return [(_floats(outputs, sized, given.scores), labels)]


def _repeated(arrays: Arrays, times: int) -> Arrays:
    """Each sample several times in a row: what belongs together stays so."""
    return arrays[0], {path: v._replace(array=np.repeat(v.array, times, axis=0)) for path, v in arrays[1].items()}


def _nan(given: Given) -> Any:
    """The first floating output is NaN in one element."""

    def spoil(array: Any) -> Any:
        array = array.copy()
        array.flat[0] = np.nan
        return array

    floats = [path for path, v in given.outputs[1].items() if v.array.dtype.kind == "f" and v.array.size]
    if floats:
        return [(_floats(given.outputs, spoil, given.scores or floats[0]), given.labels)]
    return "no floating output"


def _soft(given: Given) -> Any:
    """Labels that are probabilities, smoothed further."""
    for path, label in given.labels[1].items():
        array = label.array
        if array.dtype.kind != "f" or array.ndim < 2 or not array.size:  # noqa: PLR2004 - samples and classes
            continue
        if any(v.array.shape == array.shape for v in given.outputs[1].values()) and (array >= 0).all() and np.allclose(array.sum(-1), 1):
            smooth = _floats(given.labels, lambda a: a * 0.9 + 0.1 / a.shape[-1], path)
            return [(given.outputs, smooth)]
    return "no label is a probability of each class"


MAKERS: Dict[str, Callable[[Given], Any]] = {
    "ties": _ties,
    "ranked": _ranked,
    "one_class": _one_class,
    "absent_class": _absent_class,
    "mostly_ignored": _mostly_ignored,
    "all_ignored": _all_ignored,
    "partial_batch": _partial,
    "one_sample": _single,
    "sized": _sized,
    "extreme": _extreme,
    "nan": _nan,
    "soft_labels": _soft,
    "no_sample": _empty,  # last: a kernel that cannot do it may end the process
}
