"""Buffers of several values: whether the port follows the reference's, or makes its own.

A port may register a table and compute it where it needs it: the same model, as long as the table holds what the reference constructs.
So this is asked once the port is aligned, of tables that are moved by noise on both sides, and is a weakness; the judge can make it a
reason to reject.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import narrow, widen
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Finding
from paralign.stages.forward import moved_weights, stage
from paralign.stages.weights.assignment import MOVABLE, MOVED
from paralign.verification.constant_buffers import PASSES, acting, named
from paralign.weights.proof import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import StageResult


@dataclass
class Tables:
    """Names of the reference's tables that the port follows, and of those that it does not."""

    followed: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)


def movable(context: Context, known: set[str]) -> dict[str, Typed]:
    """Other values for the reference's floating buffers that have a place in the port.

    Args:
        context: its weights carried over.
        known: names of those that were moved already.
    """
    weights, plan = context.weights, context.plan
    if weights is None or plan is None or context.guessed or not plan.complete:
        return {}
    random = np.random.default_rng(0)
    found: dict[str, Typed] = {}
    for record in plan.sources:
        is_table = record.role == "buffer" and record.location is not None and record.dtype in MOVABLE
        if not is_table or record.name in known or record.attrs.get("leaf") in STATISTICS:
            continue
        value = weights.value(record)
        wide = widen(value)
        if wide.size and np.isfinite(wide).all():
            spread = float(np.std(wide)) or float(np.abs(wide).max()) or 1.0
            found[record.name] = narrow(wide + MOVED * spread * np.abs(random.standard_normal(wide.shape)), value.dtype)
    return found


def reacting(context: Context, known: set[str]) -> dict[str, Typed]:
    """Those of :func:`movable` whose other values change the reference's outputs.

    These stay finite; nothing of the port runs.
    """
    found = movable(context, known)
    names = list(found)
    groups = [[name] for name in names[: PASSES - 1]] + [names[PASSES - 1 :]]
    return acting(context, {}, [{name: found[name] for name in group} for group in groups if group]) if found else {}


def ask(context: Context, values: dict[str, Typed], draw: Callable[[int], Capture]) -> Tables:
    """Whether the port's outputs follow tables that are moved.

    All at once; where they do not, each alone.

    Args:
        context: of a check that is aligned; its weights stay moved.
        values: other values for tables.
        draw: draws the inputs of the pass of a number.
    """
    if not values:
        return Tables()
    whole = _is_followed(context, values, draw(0))
    if whole is None or whole:
        return Tables(followed=set(values) if whole else set())
    names = list(values)[:PASSES]
    alone = {name: _is_followed(context, {name: values[name]}, draw(number)) for number, name in enumerate(names, 1)}
    own = {name for name, followed in alone.items() if followed is False}
    if not own:  # only together do they show it
        return Tables(own=set(values))
    return Tables({name for name, followed in alone.items() if followed}, own)


def _is_followed(context: Context, values: dict[str, Typed], inputs: Capture) -> bool | None:
    """Whether both sides agree with tables moved; None where the reference fails."""
    settings = replace(context.settings, draws=())
    context = replace(context, inputs=inputs, settings=settings, artifacts={}, replays={}, part=f"tables-{inputs.path.name}")
    try:
        context.weights = moved_weights.load(context, values)
        found = stage.judged(context)
    except WorkerFailed as failure:
        return None if failure.side == "reference" else False
    return found.verdict == ALIGNED


def reject(result: StageResult, found: Tables) -> None:
    """Make tables that the port does not follow a divergence of the stage ``forward``."""
    if not found.own or result.verdict != ALIGNED:
        return
    cause = f"other values of these buffers change the reference's outputs, and not the port's in the same way: {named(sorted(found.own))}"
    result.verdict = DIVERGED
    result.findings.append(Finding("forward/tables", cause, "take them from the weights", proven=True))


def weakness(found: Tables) -> list[str]:
    """Tables that the port makes itself, for the certificate."""
    if not found.own:
        return []
    told = "buffers that the port does not follow when they are moved by noise (it makes them itself, or uses them otherwise)"
    return [f"{told}: right as long as they hold what the reference constructs; --tables rejects it: {named(sorted(found.own))}"]
