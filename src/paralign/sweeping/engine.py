"""All ports of a table, some at a time within a memory.

Each result is kept as soon as it is done: a sweep that was cut short goes on.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from paralign.errors import plain_text
from paralign.model import SCHEMA, overall
from paralign.sweeping.into_store import check_into, state_of, workplace
from paralign.sweeping.on_ray import Cluster
from paralign.sweeping.one_port import Outcome, check, from_json, is_current
from paralign.sweeping.store import Store
from paralign.sweeping.swept import junit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from paralign.sweeping.ports import Port, Sweep

#: what is kept of all ports
SUMMARY, JUNIT = "sweep.json", "junit.xml"

#: where ports are checked: by this process, or as tasks of Ray
LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY)


def sweep(
    table: Sweep,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    engine: str = LOCAL,
    progress: Callable[[int, int, str], None] = lambda *_: None,
    checked: Callable[[Port, Path, threading.Event], Outcome] = check,
) -> list[Outcome]:
    """Check every port that has no result that still holds; one that fails stops no other.

    Args:
        table: the ports.
        jobs: how many at a time; None for the table's.
        fresh: check all of them again.
        engine: ``local`` or ``ray``: as tasks of Ray, here or on the cluster at ``RAY_ADDRESS``.
        progress: told how many are done, of how many, and which was done last.
        checked: checks one port; with ``local`` alone.

    Returns:
        The outcome of each port, in the order of the table; they are in the results, beside ``sweep.json`` and ``junit.xml``.

    Raises:
        WriteFailed: a result cannot be kept.
        EnvironmentUnavailable, UsageError: as :class:`~paralign.sweeping.store.Store`; Ray is not there.
    """
    store = Store(table.out)
    found = {} if fresh else _earlier(store, table.ports)
    count = jobs or table.jobs
    with ExitStack() as stack:
        stop = threading.Event()
        if engine == RAY:
            place = stack.enter_context(Cluster(store, count)).check
        else:
            place = partial(_here, store, stack.enter_context(workplace(store)), checked)
        open_ports = [port for port in table.ports if port.name not in found]
        for done, outcome in enumerate(_several(open_ports, place, count, table.memory, stop), len(found) + 1):
            found[outcome.name] = outcome
            progress(done, len(table.ports), outcome.name)
    outcomes = [found[port.name] for port in table.ports]
    store.write(SUMMARY, (as_json(outcomes) + "\n").encode())
    store.write(JUNIT, junit(outcomes).encode())
    return outcomes


def _here(
    store: Store, work: Path, checked: Callable[[Port, Path, threading.Event], Outcome], port: Port, stop: threading.Event
) -> Outcome:
    return check_into(store, port, work, stop, checked)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """The summary as text; the files that a result depended on are left out."""
    ports = [{key: value for key, value in asdict(outcome).items() if key not in ("files", "key")} for outcome in outcomes]
    report = {"schema": SCHEMA, "verdict": verdict_of(outcomes), "ports": ports}
    return plain_text(json.dumps(report, indent=1, ensure_ascii=False))


def verdict_of(outcomes: Sequence[Outcome]) -> str:
    """The worst verdict of all ports."""
    return overall([outcome.verdict for outcome in outcomes])


def _earlier(store: Store, ports: Sequence[Port]) -> dict[str, Outcome]:
    """Results of an earlier sweep that still hold, by name."""
    found = {}
    for port in ports:
        data = store.read(state_of(port))
        outcome = None if data is None else from_json(data)
        if outcome is not None and outcome.name == port.name and is_current(outcome, port):
            outcome.reused = True
            found[port.name] = outcome
    return found


def _several(
    ports: list[Port], place: Callable[[Port, threading.Event], Outcome], jobs: int, memory: float | None, stop: threading.Event
) -> Iterator[Outcome]:
    """Outcomes in the order in which ports end; left early, what is under way is ended."""
    waiting = list(ports)
    running: dict[Future[Outcome], Port] = {}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while waiting or running:
                for port in _startable(waiting, list(running.values()), jobs, memory):
                    waiting.remove(port)
                    running[pool.submit(place, port, stop)] = port
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    del running[future]
                    yield future.result()
        finally:
            stop.set()


def _startable(waiting: list[Port], running: list[Port], jobs: int, memory: float | None) -> list[Port]:
    """Ports that may begin now, in their order.

    A small one may begin before a large one that has to wait.
    """
    found: list[Port] = []
    for port in waiting:
        under_way = [*running, *found]
        fits = memory is None or sum(each.memory for each in under_way) + port.memory <= memory
        if len(under_way) < jobs and fits:
            found.append(port)
    return found
