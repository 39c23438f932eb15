"""Units of a streamed check as tasks of Ray, here or on the machines of a cluster.

A task leaves what its unit came to in the output folder, as a check here does. Ray starts it again, elsewhere if need be, where its
worker dies; units that a check which was cut short had done are not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import UsageError, WorkerFailed, one_line, shortened
from paralign.model import ERROR
from paralign.ray_session import SAID, Session
from paralign.streaming import kept_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.streaming.unit import Outcome, Unit, Units

#: what asks for Ray
ASKED = '[model] engine = "ray"'


def check_all(units: Units, wanted: list[Unit], jobs: int, progress: Callable[[str], None]) -> list[Outcome]:
    """The outcomes of units, each a task of Ray.

    Args:
        units: checks one; every machine has to reach its output folder and the files of the project at the same paths.
        wanted: the units.
        jobs: tasks at a time, in a session that is started here; a cluster has its own.
        progress: called with the title of each unit that is done.

    Raises:
        EnvironmentUnavailable: Ray is not installed, or no cluster answers.
        WorkerFailed: a task ended without an outcome.
        UsageError: a machine keeps results where this one does not see them.
    """
    with Session(jobs, ASKED, "leave out engine in [model]") as session:
        task = session.task(_checked)
        orders = {task.options(name=unit.title).remote(units, unit): unit for unit in wanted}
        found: dict[str, Outcome] = {}
        left = list(orders)
        try:
            while left:
                done, left = session.ray.wait(left)
                for order in done:
                    unit = orders[order]
                    found[unit.title] = _got(session, order, units, unit)
                    progress(unit.title)
        except BaseException:
            for order in left:
                session.ray.cancel(order)
            raise
    return [found[unit.title] for unit in wanted]


def _checked(units: Units, unit: Unit) -> Outcome:
    """What a worker of Ray does."""
    return units.check(unit)


def _got(session: Session, order: object, units: Units, unit: Unit) -> Outcome:
    """What a task came to, whose captures have to lie where this process looks for them."""
    try:
        outcome: Outcome = session.ray.get(order)
    except session.ray.exceptions.RayError as fault:
        told = shortened(one_line(str(fault)), SAID)
        raise WorkerFailed("killed", f"the task of Ray for {unit.title} ended: {told}") from fault
    is_whole = all(stage.verdict != ERROR for stage in outcome.stages)
    if is_whole and not (units.folder_of(unit) / kept_unit.FILE).exists():
        raise UsageError(
            f"results of {unit.title} are not where this process looks for them",
            where=str(units.folder_of(unit)),
            hint="give `out` a folder that all machines share",
        )
    return outcome
