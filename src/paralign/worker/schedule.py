"""A schedule of learning rates, stepped ahead without the model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

import numpy as np

from paralign.worker.optimizers import construction, steps

if TYPE_CHECKING:
    from paralign.adapters.base import Training
    from paralign.capture import CaptureWriter
    from paralign.worker.session import Session

#: seconds that stepping ahead may take: 10,000 steps of the frameworks' own schedules take 0.1 to 0.3
PATIENCE = 10.0


def ahead(
    session: Session, writer: CaptureWriter, count: int, adapter: Training, build: Callable[[Session], Tuple[Any, Any]]
) -> Dict[str, Any]:
    """Record the learning rates of up to ``count`` steps as ``schedule``, shape ``(steps, groups)``, float64; no update is made.

    Args:
        session: of the side.
        writer: of the capture.
        count: steps, at most.
        adapter: the session's, which trains.
        build: makes the optimizer and its schedule, which may be None.

    Returns:
        ``scheduled``: whether there is a schedule, without which one step is recorded; ``ended``: what it raised where it would not go
        on, else ''; ``built``: the line that constructed it, else the optimizer's; ``class``: its name.
    """
    session.seed()
    with construction(steps) as built:
        optimizer, scheduler = build(session)
    inside = getattr(optimizer, "_learning_rate", None)  # where Paddle keeps its schedule
    schedule = inside if scheduler is None and steps(inside) else scheduler
    answer: Dict[str, Any] = {
        "scheduled": schedule is not None,
        "ended": "",
        "built": built.source(schedule) or built.source(optimizer),
        "class": type(optimizer if schedule is None else schedule).__name__,
    }
    kept = dict(getattr(schedule, "__dict__", {}))  # a schedule that the user's module made once is used by later stages as it was
    rates: List[List[float]] = []
    began = time.perf_counter()
    try:
        for _ in range(count if schedule is not None else 1):
            rates.append([float(rate) for rate in adapter.learning_rates(optimizer)])
            if len(rates[-1]) != len(rates[0]) or time.perf_counter() - began > PATIENCE:
                break
            adapter.step_scheduler(optimizer, scheduler)
    except Exception as error:  # noqa: BLE001 - a schedule may end by raising anything; what was seen before is compared
        answer["ended"] = f"{type(error).__name__}: {error}"
    finally:
        if kept:
            vars(schedule).update(kept)
    whole = [row for row in rates if len(row) == len(rates[0])]
    writer.add("schedule", np.array(whole, np.float64).reshape(len(whole), -1), role="scalar")
    return answer
