"""What a loader makes of given samples.

Batches of two sides that shuffle are compared with the same samples in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from paralign.worker.datasets import whole
from paralign.worker.datasets.data import add_leaves
from paralign.worker.datasets.loaders import rebuilt
from paralign.worker.protocol import Groups, Regrouped

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.sides.session import Session


def groups(session: Session, writer: CaptureWriter, options: Groups, values: Dict[str, Capture]) -> Regrouped:  # noqa: ARG001 - every task has these
    """Read the loader of a split with other indices, twice with other seeds.

    A loader of no kind that takes indices is not asked.
    """
    session.seed()
    loader = session.function("build_dataloader")(options.split)
    other = rebuilt(loader, 0, [list(group) for group in options.groups])
    if other is None:
        return Regrouped()
    try:
        session.seed()
        first = _read(session, other, writer)
        session.adapter.seed(session.base_seed + 1)
        return Regrouped(len(first) == len(options.groups), first != _read(session, other, None))
    except Exception:  # noqa: BLE001 - the user's loader may rest on its own sampler in any way; its batches are compared otherwise then
        return Regrouped()


def _read(session: Session, loader: Any, writer: "CaptureWriter | None") -> List[Dict[str, Tuple[int, int]]]:
    """The hashes of every batch; with a writer, their values too."""
    found = whole.Fingerprints(session)
    count = 0
    for number, batch in enumerate(loader):
        found.add(number, batch)
        count += 1
        if writer is not None:
            add_leaves(session, writer, f"dataloader_{number}", batch)
    return [found.hashes(number) for number in range(count)]
