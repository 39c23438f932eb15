"""Batches of samples that the other side puts together too: what a loader's own function makes of them, whatever its order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from paralign.worker import redrawn
from paralign.worker.data import add_leaves
from paralign.worker.protocol import Collated, Redrawn
from paralign.worker.tape import Tape

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.session import Session


def collated(session: Session, writer: CaptureWriter, options: Collated, values: Dict[str, Capture]) -> Redrawn:
    """The given samples of the loader's data set as batches, with another side's draws in place of their own (``values["draws"]``).

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
        add_leaves(session, writer, f"dataloader_{number}", batch, source=_line_of(loader.collate_fn))
        answer.draws[str(number)] = len(tape.draws)
        if tape.apart:
            answer.misfits[str(number)] = tape.apart
        if given is None:
            redrawn.record(writer, number, tape.draws)
    return answer


def _line_of(function: Any) -> Optional[str]:
    """Where a function, or what a partial or an object calls, is defined; None of one that is not written in Python."""
    inner = getattr(function, "func", function)
    held: List[Any] = [inner, getattr(inner, "__func__", None), vars(type(inner)).get("__call__")]
    code = next((c for c in (getattr(each, "__code__", None) for each in held) if c is not None), None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"
