"""Batches of samples that the other side puts together too.

They are what a loader's own function makes of them, whatever its order.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Dict, List

from paralign.worker.datasets import loaders, redrawn, whole
from paralign.worker.datasets.data import add_leaves
from paralign.worker.datasets.loaders import rebuilt
from paralign.worker.draws.tape import Tape
from paralign.worker.protocol import Collated, Redrawn

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def collated(session: Session, writer: CaptureWriter, options: Collated, values: Dict[str, Capture]) -> Redrawn:
    """Put given samples of the loader's data set together as batches.

    Another side's draws (``values["draws"]``) take the place of their own.

    Recorded as ``dataloader_<n>``; draws as ``draw_<n>`` of step 0, 1, … Every batch has a seed of its own.
    """
    given = values.get("draws")
    answer = Redrawn()
    session.seed()
    loader = session.function("build_dataloader")(options.split)
    for number, indices in enumerate(options.batches):
        tape = Tape(session, None if given is None else redrawn.read(given, number))
        session.adapter.seed(redrawn.seed_of(session, number))
        with tape.running():
            batch = loader.collate_fn([loader.dataset[index] for index in indices])
        add_leaves(session, writer, f"dataloader_{number}", batch, source=loaders.line_of(loader.collate_fn))
        answer.draws[str(number)] = len(tape.draws)
        if tape.apart:
            answer.misfits[str(number)] = tape.apart
        if given is None:
            redrawn.record(writer, number, tape.draws)
    if not _gives_what_is_collated(session, loader, options.batches[:1]):  # last: a loader may read ahead, and draw meanwhile
        answer.misfits["loader"] = "its batches are not what its collate_fn gives"
    return answer


def _gives_what_is_collated(session: Session, loader: Any, batches: List[List[int]]) -> bool:
    """Whether the loader's first batch is what its function made.

    A loader of the user's own may change it, or ask another function.
    """
    made = whole.Fingerprints(session)

    def collate(samples: Any) -> Any:
        batch = original(samples)
        if not made.count:  # at once: the loader may change it in place
            made.add(0, batch)
        return batch

    try:
        original = loader.collate_fn
        other = rebuilt(loader, 0, batches) or copy.copy(loader)
        for name, value in (("collate_fn", collate), ("num_workers", 0), ("timeout", 0)):
            if hasattr(other, name):
                setattr(other, name, value)
        first, *_ = itertools.islice(other, 2)  # on to the end of one that gives a single batch
    except Exception:  # noqa: BLE001 - any class of loader, the user's code in all it does here: batches are compared otherwise then
        return False
    given = whole.Fingerprints(session)
    given.add(0, first)
    return made.count > 0 and made.hashes(0) == given.hashes(0)
