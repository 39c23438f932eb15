"""The batches that training steps are fed with.

One again and again, or real ones in the order in which a loader gave them.

A capture of several batches is one of inputs and labels whose trees ``inputs`` and ``labels`` are the first batch, ``inputs_1`` and
``labels_1`` the second, and so on: whoever looks at one step alone takes the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from paralign.dtypes import typed
from paralign.errors import UsageError
from paralign.worker.datasets.data import LABEL_KEYS, split_batch
from paralign.worker.protocol import Fed, Feed
from paralign.worker.values.trees import leaves, rebuild, structure

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


#: elements of a batch of inputs and labels
PAIR = 2


def name_of(what: str, number: int) -> str:
    """The name of a batch's tree: the first has none of its own."""
    return f"{what}_{number}" if number else what


def feed(session: "Session", writer: "CaptureWriter", options: Feed, values: "Dict[str, Capture]") -> Fed:  # noqa: ARG001 - every task has these
    """The first batches of the side's data loader, in order.

    Raises:
        UsageError: the loader gave none, or a batch cannot be split.
    """
    session.seed()
    form: Dict[str, str] = {}
    number = 0
    for number, batch in enumerate(session.function("build_dataloader")(options.split), 1):
        inputs, labels = split_batch(batch)
        form = _form(batch)
        session.save_tree(writer, name_of("inputs", number - 1), inputs, role="input")
        session.save_tree(writer, name_of("labels", number - 1), labels, role="input")
        if number == options.count:
            break
    if not number:
        raise UsageError(
            f"the data loader of split {options.split!r} gave no batch",
            where=session.side,
            hint="check the data set's length, the batch size and drop_last",
        )
    return Fed(number, form)


def _form(batch: Any) -> Dict[str, str]:
    """How a batch is made: a dict, or a tuple or list with the labels last.

    A dict has the labels under a key.

    ``whole`` names the type of inputs that lie in a batch of two as one element: ``((image, mask), labels)``, ``({"ids": …}, labels)``.
    """
    if isinstance(batch, dict):
        return {"kind": "dict", "key": next(key for key in LABEL_KEYS if key in batch)}
    form = {"kind": "list" if isinstance(batch, list) else "tuple"}
    if len(batch) == PAIR and isinstance(batch[0], (dict, list, tuple)):
        form["whole"] = "dict" if isinstance(batch[0], dict) else "list" if isinstance(batch[0], list) else "tuple"
    return form


def joined(inputs: Any, labels: Any, form: Dict[str, Any]) -> Any:
    """Put inputs and labels together as a batch of the loader.

    Inputs that do not fill the form's names stay as they are.

    >>> joined(1, 2, {"kind": "list"}), joined({"image": 1}, 2, {"kind": "dict", "key": "label"}), joined((1, 3), 2, {})
    ([1, 2], {'image': 1, 'label': 2}, (1, 3, 2))
    >>> joined({"a": 1, "b": 2}, 3, {"kind": "tuple", "parts": 2}), joined((1, 2), 3, {"kind": "dict", "key": "y", "names": ["a", "b"]})
    ((1, 2, 3), {'a': 1, 'b': 2, 'y': 3})
    >>> joined((1, 2), 3, {"kind": "tuple", "whole": "list"}), joined({"a": 1}, 3, {"kind": "list", "whole": "dict"})
    (([1, 2], 3), [{'a': 1}, 3])
    >>> joined([1, 2], 3, {"kind": "list", "whole": "list"})
    [[1, 2], 3]
    """
    names, kind = form.get("names", ()), form.get("kind")
    parts = list(inputs.values()) if isinstance(inputs, dict) else [*inputs] if isinstance(inputs, tuple) else [inputs]
    if "whole" in form:
        parts = [*inputs] if isinstance(inputs, list) else parts
        pair = [_whole(inputs, parts, form), labels]
        return pair if kind == "list" else tuple(pair)
    if isinstance(inputs, dict) and (kind in (None, "dict") or len(parts) != form.get("parts")):
        return {**inputs, form.get("key", "labels"): labels}
    if kind == "dict" and len(parts) == len(names):
        return {**dict(zip(names, parts)), form["key"]: labels}
    return [*parts, labels] if kind == "list" else (*parts, labels)


def _whole(inputs: Any, parts: List[Any], form: Dict[str, Any]) -> Any:
    """Inputs as the one element that they are of a batch."""
    names = form.get("names", ())
    if form["whole"] == "list":
        return parts
    if form["whole"] == "tuple":
        return tuple(parts)
    if isinstance(inputs, dict) and (not names or set(names) == set(inputs)):
        return inputs
    return dict(zip(names, parts)) if len(parts) == len(names) else inputs


def own_form(session: "Session") -> Dict[str, Any]:
    """How inputs and labels lie in the batches of the side's own loader.

    Empty where it has none, or none that can be split.

    The side's training step is written for those, whichever way the values came.
    """
    if "build_dataloader" not in session.functions:
        return {}
    session.seed()
    try:
        first = next(iter(session.function("build_dataloader")("train")), None)
        inputs, _ = split_batch(first)
    except Exception:  # noqa: BLE001 - what a loader of the user's raises is told by the stages that read it
        return {}
    form: Dict[str, Any] = dict(_form(first))
    if isinstance(inputs, dict):
        return {**form, "names": list(inputs)}
    return {**form, "parts": len(inputs) if isinstance(inputs, tuple) else 1}


def batches(session: "Session", values: "Dict[str, Capture]", run: str) -> List[Tuple[Any, Any]]:
    """The inputs and labels of every batch that there is.

    They are tensors of the side, in the precision of a run.
    """
    trees = values["inputs"].manifest.settings["trees"]
    numbers = [0]
    while name_of("inputs", len(numbers)) in trees:
        numbers.append(len(numbers))
    return [
        (session.inputs(values["inputs"], run, name_of("inputs", n)), session.tree(values["labels"], name_of("labels", n), run))
        for n in numbers
    ]


def form_of(values: "Dict[str, Capture]") -> Dict[str, str]:
    """How inputs and labels lie in a batch; empty where no loader gave them."""
    capture = values["inputs"]
    return Feed.answer(capture).form if capture.manifest.stage == Feed.task else {}


def tensors_of(session: "Session", value: Any, *, inputs: bool = False) -> Any:
    """A part of a batch as the model takes it, each leaf in its own element type.

    Arrays and numbers become tensors of this side, on its device.

    Args:
        session: of the side.
        value: the part.
        inputs: whether it is the model's inputs: named ones, of an object too, are handed over by keyword.
    """
    known = session.adapter.is_tensor

    def convert(leaf: Any) -> Any:
        if known(leaf):
            return session.adapter.from_array(session.adapter.to_array(leaf))
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
            return session.adapter.from_array(typed(leaf))
        return leaf

    found = dict(leaves(value, known))
    return rebuild(structure(value, known), lambda path: convert(found[path]), plain=inputs)
