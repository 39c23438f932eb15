"""What a network gives in each step of a training.

It is recorded, or another training's is put in its place.

With equal outputs, what still differs is made of them: the loss, and what else is computed beside the network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from paralign.dtypes import is_complex, is_floating, narrow, widen
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.model import Record
    from paralign.worker.sides.session import Session

#: the run under which outputs are recorded
OUTPUTS = "outputs"

#: methods by which models take a function that may replace what a call gives: PyTorch's, Paddle's
_HOOKS = ("register_forward_post_hook", "register_forward_hook")


class Outputs:
    """Keep what the network gives, or put what was kept in its place.

    Gradients go on into the network as they were.

    Args:
        session: the side.
        writer: of the run's capture.
        given: another training's capture with kept outputs; None to keep.
    """

    def __init__(self, session: "Session", writer: "CaptureWriter", given: "Optional[Capture]") -> None:
        self._session, self._writer, self._given = session, writer, given
        self._kept: Dict[Tuple[int, int], List["Record"]] = {}
        for record in [] if given is None else given.select(run=OUTPUTS):
            self._kept.setdefault((record.step, int(record.attrs["call"])), []).append(record)
        self._step: Optional[int] = None
        self._call = 0
        self.calls = self.replaced = 0

    def attach(self, model: Any) -> None:
        """Look at every call of a model from now on.

        A model that takes no hooks has none that are seen.
        """
        hook = next((getattr(model, name) for name in _HOOKS if hasattr(model, name)), None)
        if hook is not None:
            hook(self._called)

    def begin(self, step: Optional[int]) -> None:
        """Calls from now on belong to this step; None: to none."""
        self._step, self._call = step, 0

    def _called(self, module: Any, inputs: Any, outputs: Any) -> Any:  # noqa: ARG002 - as hooks are called
        if self._step is None:
            return None
        number, self._call = self._call, self._call + 1
        known = self._session.adapter.is_tensor
        tensors = [(path, leaf) for path, leaf in leaves(outputs, known) if known(leaf)]
        if self._given is None:
            for path, leaf in tensors:
                value = self._session.adapter.to_array(leaf)
                self._writer.add("outputs", value, role="output", leaf=path, run=OUTPUTS, step=self._step, attrs={"call": number})
            return None
        self.calls += 1
        values = self._fitting(tensors, self._kept.get((self._step, number), []))
        if values is None:
            return None
        self.replaced += 1
        return _with(outputs, known, lambda leaf: values.get(id(leaf), leaf))

    def _fitting(self, tensors: "List[Tuple[str, Any]]", records: "List[Record]") -> Optional[Dict[int, Any]]:
        """The tensor that takes the place of each floating one, by ``id``.

        None where what was kept has other shapes.
        """
        if len(tensors) != len(records) or self._given is None:
            return None
        by_path = {record.leaf: record for record in records}
        named = all(path in by_path for path, _ in tensors)
        found: Dict[int, Any] = {}
        for (path, made), in_order in zip(tensors, records):
            value = self._given.value(by_path[path] if named else in_order)
            own = self._session.adapter.to_array(made)
            if value.array.shape != own.array.shape:
                return None
            if is_floating(own.dtype) and not is_complex(own.dtype) and is_floating(value.dtype):
                wanted = self._session.adapter.from_array(narrow(widen(value), own.dtype))
                if not bool(np.isfinite(widen(own)).all()):
                    return None  # what is not finite cannot carry gradients
                found[id(made)] = wanted + (made - made.detach())
        return found


def _with(value: Any, known: "Callable[[Any], bool]", leaf: "Callable[[Any], Any]") -> Any:
    """A copy of a nested value, in its own containers, with other tensors."""
    if known(value):
        return leaf(value)
    if isinstance(value, Mapping):
        made: Any = copy.copy(value)
        for key in list(value):
            made[key] = _with(value[key], known, leaf)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_with(each, known, leaf) for each in value))
    if type(value) in (list, tuple):
        return type(value)(_with(each, known, leaf) for each in value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        made = copy.copy(value)
        for name in value.__dataclass_fields__:
            object.__setattr__(made, name, _with(getattr(value, name), known, leaf))
        return made
    return value
