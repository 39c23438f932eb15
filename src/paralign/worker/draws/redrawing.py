"""The draws of a pass, recorded or replaced by what another side drew.

Checkpointing (``torch.utils.checkpoint``, ``paddle.distributed.fleet.utils.recompute``) computes a block once more in the backward pass,
with the random state that it had, so a random operation makes what it made before. That is how it is known again.
"""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import numpy as np

from paralign.adapters._values import converted
from paralign.dtypes import Typed, widen
from paralign.errors import UnsupportedTensor
from paralign.worker.draws.arranged import arranged
from paralign.worker.draws.drawn_values import MASK, UNIFORM, bare, drawn, replayed, turned
from paralign.worker.protocol import RandomOperation

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from paralign.adapters.base import Operation
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.draws.drawn_values import Draw
    from paralign.worker.protocol import Redraw

#: dropouts that draw a mask and apply it; after the name of a draw, the name of the values that it falls on
WHOLE, ON = ("dropout", "native_dropout"), " on"


class Redrawing:
    """A sink for the operations of a forward pass.

    ``random`` says of each random operation its number, name, family, share, shape, module, line, and the draw that it was given.
    Where numbers are by order, 0 is the first random operation.
    """

    def __init__(
        self,
        adapter: Any,
        writer: "CaptureWriter",
        run: str,
        redraw: "Redraw",
        given: "Optional[Capture]",
        step: Optional[int] = None,
    ) -> None:
        self.random: List[RandomOperation] = []
        self._fields: Dict[str, Any] = {"run": run} if step is None else {"run": run, "step": step}
        self._adapter, self._writer, self._given = adapter, writer, given
        chosen = [] if given is None else given.select(role="sample", **{**self._fields, "run": redraw.drawn_in or run})
        self._draws = {record.name: record for record in chosen}
        self._by_order = redraw.by_order
        self._use = {int(number): name for number, name in redraw.use.items()}
        self._mirrored = set(redraw.mirrored)
        self._keep = redraw.keep
        self._undecided: Dict[int, str] = {}
        self._again = _Recomputing(adapter)

    def recomputing(self) -> "AbstractContextManager[None]":
        """Use draws that were put in place again where the backward pass repeats operations."""
        if not self._use:
            return nullcontext()
        watched: AbstractContextManager[None] = self._adapter.operations(self._again)
        return watched

    def before(self, inputs: List[Any]) -> None:
        """Nothing is asked of the inputs."""

    def after(self, operation: "Operation") -> Optional[List[Any]]:
        """Note what a random operation drew; its outputs with the given draw, or None."""
        self._note_values(operation)
        draw = drawn(operation)
        if draw is None:
            return None
        if draw.family == MASK and draw.p is None and operation.inputs:
            draw = draw._replace(p=self._share(operation.inputs[-1]))
        number = len(self.random) if self._by_order else operation.index
        shape = list(self._adapter.describe(operation.outputs[0] if draw.value is None else draw.value)[1])
        self._say(operation, draw, shape)
        return self._replaced(operation, draw, shape, number)

    def _say(self, operation: "Operation", draw: "Draw", shape: List[int]) -> None:
        """Note a random operation, and record its draw if it is to be kept."""
        name, source = f"draw {len(self.random)}", operation.stack[0] if operation.stack else None
        self.random.append(RandomOperation(operation.index, operation.op, operation.module, source, draw.family, draw.p, shape, name))
        if self._keep and draw.value is not None:
            attrs = {"operation": "draw", "family": draw.family, "p": draw.p}
            self._writer.add(name, self._adapter.to_array(draw.value), role="sample", attrs=attrs, **self._fields)
            self._keep_values(operation, name, draw.family)

    def _replaced(self, operation: "Operation", draw: "Draw", shape: List[int], number: int) -> Optional[List[Any]]:
        """The outputs with the given draw."""
        record = self._draws.get(self._use.get(number, ""))
        if record is None or self._given is None:
            return None
        dtype, wanted = self._adapter.describe(operation.outputs[0])
        given = converted(self._given.value(record), dtype)
        family = record.attrs["family"]
        share = record.attrs["p"] if family == MASK else draw.p
        if family == UNIFORM and draw.family == MASK and share is None:
            return None  # nothing tells which of the numbers it would keep
        array = self._arranged(operation, record.name, given.array, wanted if draw.value is None else shape)
        if array is None:
            return None
        array = turned(array, family, draw.family, share, mirrored=number in self._mirrored)
        chosen = Typed(np.ascontiguousarray(array), given.dtype)
        found = replayed(operation, family, self._adapter.from_array(chosen))
        if found is not None:
            self.random[-1].given = record.name
            # of its own: PyTorch detaches, as one more operation, what a function that makes a tensor returns while another holds it
            self._again.remember(operation, family, self._adapter.from_array(chosen))
        return found

    def _arranged(self, operation: "Operation", name: str, draw: Any, shape: Any) -> Any:
        """A given draw in the order of the values that it falls on here.

        None where it does not fit.
        """
        record = self._draws.get(name + ON)
        on = None if record is None or self._given is None else widen(self._given.value(record))
        whole = bare(operation.op) in WHOLE
        own = widen(self._adapter.to_array(operation.inputs[0])) if whole and on is not None else None
        mine = np.ones(tuple(shape), draw.dtype)
        if own is not None and draw.size != mine.size:  # rows that only this side has keep nothing: they are padding
            mine = np.zeros(tuple(shape), draw.dtype)
        return arranged(draw, on, own, shape, mine)

    def _keep_values(self, operation: "Operation", name: str, family: str) -> None:
        """Record the values that a mask falls on.

        They are what a dropout takes; where the mask alone is drawn, they are recorded as soon as it is used.
        """
        if family == MASK and bare(operation.op) in WHOLE:
            self._writer.add(name + ON, self._adapter.to_array(operation.inputs[0]), role="sample", **self._fields)
        elif family == MASK:
            self._undecided[self._adapter.storage(operation.outputs[0])] = name

    def _note_values(self, operation: "Operation") -> None:
        """Record the values that are multiplied by a mask drawn before."""
        drawn_ones = [t for t in operation.inputs if self._adapter.storage(t) in self._undecided] if self._undecided else []
        if len(drawn_ones) != 1 or not operation.outputs:
            return
        name = self._undecided[self._adapter.storage(drawn_ones[0])]
        others = [t for t in operation.inputs if t is not drawn_ones[0]]
        if not others:  # the mask, scaled
            self._undecided[self._adapter.storage(operation.outputs[0])] = name
        elif operation.kind == "multiply" and self._adapter.describe(others[0])[1] == self._adapter.describe(drawn_ones[0])[1]:
            self._writer.add(name + ON, self._adapter.to_array(others[0]), role="sample", **self._fields)
            self._undecided = {storage: other for storage, other in self._undecided.items() if other != name}

    def _share(self, kept: Any) -> Optional[float]:
        """The share of elements that are dropped, given the probabilities of being kept.

        None where these differ.
        """
        values = widen(self._adapter.to_array(kept))
        if values.size and bool((values == values.flat[0]).all()):
            return 1.0 - float(values.flat[0])
        return None


class _Recomputing:
    """A sink for a backward pass, in which random operations may run again.

    Those seen in the forward pass get the draws that they were given there.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._given: Dict[Tuple[str, str], Tuple[str, Any]] = {}

    def remember(self, operation: "Operation", family: str, value: Any) -> None:
        """Note the draw that an operation was given in place of its own."""
        key = self._key(operation)
        if key is not None:
            self._given[key] = (family, value)

    def before(self, inputs: List[Any]) -> None:
        """Nothing is asked of the inputs."""

    def after(self, operation: "Operation") -> Optional[List[Any]]:
        """The outputs with the remembered draw.

        None for what is not random, or was not met in the forward pass.
        """
        key = None if drawn(operation) is None else self._key(operation)
        known = None if key is None else self._given.get(key)
        return None if known is None else replayed(operation, *known)

    def _key(self, operation: "Operation") -> Optional[Tuple[str, str]]:
        """An operation by its name and the values that it made by itself.

        None for values that cannot be read.
        """
        try:
            made = self._adapter.to_array(operation.outputs[0])
        except UnsupportedTensor:
            return None
        return operation.op, hashlib.sha256(made.array.tobytes()).hexdigest()
