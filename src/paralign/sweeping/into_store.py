"""One port checked where this process runs, its results left in the sweep's store."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from paralign.sweeping.one_port import Outcome
    from paralign.sweeping.ports import Port
    from paralign.sweeping.store import Store

#: what is kept of each port, in its folder
STATE = "port.json"


def state_of(port: Port) -> str:
    """Where a port's outcome lies in the store."""
    return f"{port.name}/{STATE}"


@contextmanager
def workplace(store: Store) -> Iterator[Path]:
    """The folder that ports are checked in: the store's own, or a temporary one."""
    if not store.remote:
        yield Path(store.root)
        return
    with tempfile.TemporaryDirectory(prefix="paralign-") as name:
        yield Path(name)


def check_into(
    store: Store, port: Port, work: Path, stop: threading.Event, checked: Callable[[Port, Path, threading.Event], Outcome]
) -> Outcome:
    """Check a port and keep what it came to; nothing is kept of a check that was interrupted.

    Raises:
        WriteFailed: a result cannot be kept.
    """
    outcome = checked(port, work / port.name, stop)
    if stop.is_set():
        return outcome
    if store.remote:
        store.upload(work / port.name, port.name)
    store.write(state_of(port), outcome.to_json())
    return outcome
