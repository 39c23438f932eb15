"""A session of Ray: one of its own, the cluster at ``RAY_ADDRESS``, or the present one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from paralign.errors import EnvironmentUnavailable, one_line, shortened

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

#: times that a task is begun again whose worker died: one that takes its machine down each time is given up
AGAIN = 3

#: the variable by which Ray finds a cluster
ADDRESS = "RAY_ADDRESS"

#: seconds between two looks at a task
LOOK = 0.2

#: characters of Ray's own messages that are quoted
SAID = 2000


class Session:
    """Runs functions as tasks of Ray.

    Args:
        jobs: tasks at a time, which a session of its own has processes for.
        asked: what asked for Ray, as the user wrote it: ``--engine ray``.
        instead: what to do where Ray does not start.

    Raises:
        EnvironmentUnavailable: Ray is not installed, or no cluster answers.
    """

    def __init__(self, jobs: int, asked: str, instead: str) -> None:
        self.ray = _imported(asked)
        self._own = not self.ray.is_initialized()
        self.is_shared = not self._own or ADDRESS in os.environ
        if self._own:
            self._start(jobs, instead)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self._own:
            self.ray.shutdown()

    def _start(self, jobs: int, instead: str) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        address = os.environ.get(ADDRESS)
        try:
            if address is None:
                self.ray.init("local", num_cpus=jobs, include_dashboard=False, **quiet)
            else:
                self.ray.init(address, **quiet)
        except Exception as fault:  # Ray raises plain Exception where its processes take too long to start
            told = f"Ray does not start: {shortened(one_line(str(fault)), SAID)}"
            hint = instead if address is None else f"start the cluster, or unset {ADDRESS}"
            raise EnvironmentUnavailable(told, where=address or "this machine", hint=hint) from fault

    def task(self, function: Any) -> Any:
        """A function as a task of one processor, begun again where its worker dies."""
        return self.ray.remote(max_retries=AGAIN, num_cpus=1)(function)


def _imported(asked: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a check
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # devices stay visible to the sides of a port
    try:
        import ray
    except ImportError as fault:
        raise EnvironmentUnavailable("Ray is not installed", where=asked, hint="pip install 'paralign[ray]'") from fault
    return ray
