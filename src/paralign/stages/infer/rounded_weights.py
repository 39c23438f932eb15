"""Predictions of the reference with weights that are moved by rounding.

And with its weights as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.errors import WorkerFailed
from paralign.worker.protocol import Infer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.model import Pair, Record

#: how often weights are moved, and the number of the run whose weights are as they are
TIMES, AS_IT_IS = 8, -1


@dataclass(frozen=True)
class Moved:
    """Predictions of paths, each made several times."""

    paths: list[str]
    capture: Capture

    def of(self, native: Capture, record: Record) -> list[NDArray[Any]]:
        """A prediction with moved weights; none where it does not repeat with those that it had.

        Args:
            native: the predictions of the reference.
            record: one of them.
        """
        if record.attrs["path"] not in self.paths:
            return []
        name = f"predict_{self.paths.index(str(record.attrs['path']))}"
        found = [r for r in self.capture.select(name=name, leaf=record.leaf) if r.location is not None and r.shape == record.shape]
        again = {each.run: self.capture.array(each) for each in found}
        as_it_is = again.pop(f"moved-{AS_IT_IS}", None)
        repeats = as_it_is is not None and np.array_equal(as_it_is, native.array(record))
        return list(again.values()) if repeats and len(again) == TIMES else []


def moved(context: Context, paths: list[str]) -> Moved | None:
    """The predictions of all paths up to the last of some; None where one fails.

    What draws numbers draws them so as it did.
    """
    known = context.settings.paths
    asked = known[: max((known.index(path) for path in paths if path in known), default=-1) + 1]
    try:
        capture = context.reference.record("infer moved", Infer(asked, moved=[AS_IT_IS, *range(TIMES)]), {})
    except WorkerFailed:
        return None
    return None if Infer.answer(capture).failed else Moved(asked, capture)


def paths_of(pairs: Iterable[Pair]) -> list[str]:
    """The programs whose predictions some pairs are of."""
    references = [pair.reference for pair in pairs if pair.reference is not None]
    return list(dict.fromkeys(str(record.attrs["path"]) for record in references))
