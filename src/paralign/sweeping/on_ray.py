"""Ports of a sweep as tasks of Ray, on this machine or on the machines of a cluster.

A task checks one port and leaves its results in the sweep's store itself. Ray starts it again, elsewhere if need be, where its
worker dies; what a sweep that was cut short has finished is in the store.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from paralign.errors import UsageError, one_line, shortened
from paralign.ray_session import LOOK, SAID, Session
from paralign.sweeping.into_store import check_into, state_of, workplace
from paralign.sweeping.one_port import GB, Outcome, check, from_json
from paralign.sweeping.store import Store

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from paralign.sweeping.ports import Port


class Cluster:
    """Checks ports as tasks of Ray.

    The session is the one that this process has, the cluster at ``RAY_ADDRESS``, or one of its own here.

    Args:
        store: where results go; every machine has to reach it.
        jobs: ports at a time, which a session of its own has processes for.

    Raises:
        EnvironmentUnavailable: Ray is not installed, or no cluster answers.
    """

    def __init__(self, store: Store, jobs: int) -> None:
        self._session = Session(jobs, "--engine ray", "sweep without --engine ray")
        self._ray, self._shared = self._session.ray, self._session.is_shared
        self._store = store
        self._task = self._session.task(_task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._session.__exit__(kind, fault, trace)

    def check(self, port: Port, stop: threading.Event) -> Outcome:
        """Check a port as a task; whatever happens to it is its outcome.

        Raises:
            UsageError: the machine that checked it keeps results where this one does not see them.
        """
        failure = self._too_large(port)
        if failure:
            return self._failed(port, failure)
        needs = {"memory": int(port.memory * GB)} if self._shared else {}
        order = self._task.options(name=port.name, **needs).remote(port, self._store.root)
        while not self._ray.wait([order], timeout=LOOK)[0]:
            if stop.is_set():
                self._ray.cancel(order)
                return Outcome(port.name, str(port.project), failure="the sweep was interrupted")
        try:
            content = self._ray.get(order)
        except self._ray.exceptions.RayError as fault:
            return self._failed(port, f"its task of Ray ended: {shortened(one_line(str(fault)), SAID)}")
        return self._kept(port, content)

    def _too_large(self, port: Port) -> str:
        """Why Ray would wait for ever for a machine of a port; '' where there is one."""
        if not self._shared:
            return ""
        largest = max((node["Resources"].get("memory", 0.0) for node in self._ray.nodes() if node["Alive"]), default=0.0)
        if port.memory * GB <= largest:
            return ""
        return f"it may take {port.memory:g} GB, and the largest machine of the cluster has {largest / GB:.1f} GB (`memory` in the table)"

    def _failed(self, port: Port, failure: str) -> Outcome:
        outcome = Outcome(port.name, str(port.project), failure=failure)
        self._store.write(state_of(port), outcome.to_json())
        return outcome

    def _kept(self, port: Port, content: bytes) -> Outcome:
        """What a task says that it has kept, read where this process looks for it."""
        if self._store.read(state_of(port)) != content:
            raise UsageError(
                f"results of {port.name} are not where this process looks for them",
                where=self._store.root,
                hint="give `out` a folder that all machines share, or a URL that all of them reach",
            )
        outcome = from_json(content)
        assert outcome is not None  # noqa: S101 - the same version wrote it
        return outcome


def _task(port: Port, root: str) -> bytes:
    """What a worker of Ray does: one port, in processes of its own, its results in the store."""
    store = Store(root)
    with workplace(store) as work:
        return check_into(store, port, work, threading.Event(), check).to_json()
