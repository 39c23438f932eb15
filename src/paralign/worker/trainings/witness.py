"""The first operation of a step that makes what is not finite of what is."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, List, Optional

import numpy as np

from paralign.adapters._kinds import leaves_unset
from paralign.adapters.base import Observing
from paralign.dtypes import is_floating, widen
from paralign.errors import UnsupportedTensor
from paralign.worker.protocol import WitnessTold

if TYPE_CHECKING:
    from paralign.adapters.base import Operation
    from paralign.worker.sides.session import Session


class Witness:
    """Watches the operations of one step, where the framework's can be watched."""

    def __init__(self, session: "Session") -> None:
        self._session, self._stack = session, ExitStack()
        self._good = True
        self.watched = False
        self.found: Optional[WitnessTold] = None

    def open(self, model: Any) -> None:
        """Begin to watch."""
        adapter = self._session.adapter
        if isinstance(adapter, Observing):
            self.watched = True
            self._stack.enter_context(adapter.operations(self, model))

    def close(self) -> None:
        """Stop watching; it may never have begun."""
        self._stack.close()

    def before(self, inputs: List[Any]) -> None:
        """Look at what an operation is given."""
        self._good = self.found is None and all(self._finite(value) for value in inputs)

    def after(self, operation: "Operation") -> None:
        """Look at what it made; memory that nothing has been written to yet may hold anything."""
        if leaves_unset(operation.op):
            return
        if self.found is None and self._good and not all(self._finite(value) for value in operation.outputs):
            self.found = WitnessTold(operation.op, operation.module, list(operation.stack))

    def _finite(self, tensor: Any) -> bool:
        try:
            value = self._session.adapter.to_array(tensor)
        except UnsupportedTensor:
            return True
        return not is_floating(value.dtype) or bool(np.isfinite(widen(value)).all())
