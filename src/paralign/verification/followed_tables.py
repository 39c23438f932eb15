"""Buffers of several values: whether the port follows the reference's, or makes its own.

A port may register a table and compute it where it needs it: the same model, as long as the table holds what the reference constructs.
So this is asked once the port is aligned, of tables that are moved by noise on both sides, and is a weakness; the judge can make it a
reason to reject.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from paralign.dtypes import is_floating, narrow, widen
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Finding
from paralign.stages.forward import moved_weights, stage
from paralign.stages.weights.assignment import MOVABLE, MOVED
from paralign.verification.constant_buffers import PASSES, Effects, acting, named
from paralign.weights.proof import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Record, StageResult


#: passes of both sides at most that show which tables are followed: 32 tables of which none is take 63
TRIES = 64


@dataclass
class Tables:
    """Names of the reference's floating tables, by what the port does with them.

    Args:
        followed: the port's outputs change with them as the reference's do.
        own: they do not.
        unasked: neither was seen, as the reference fails with other values, or its outputs are not finite or show too little.
    """

    followed: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    unasked: set[str] = field(default_factory=set)


def together(found: list[Tables]) -> Tables:
    """What rounds or groups have shown; a table not followed once is the port's own."""
    own = {name for each in found for name in each.own}
    followed = {name for each in found for name in each.followed} - own
    return Tables(followed, own, {name for each in found for name in each.unasked} - own - followed)


def reacting(context: Context, known: set[str]) -> Effects:
    """Other values for the reference's floating tables that change its outputs, these finite.

    Of buffers that have a place in the port. Where the outputs are not finite, tables are moved once more within their range, each alone:
    what has a logarithm or a root taken of it stays where these are defined. Nothing of the port runs.

    Args:
        context: its weights carried over; where constant parameters are moved, its weights hold that.
        known: names of those that were moved already.
    """
    weights, plan = context.weights, context.plan
    if weights is None or plan is None:
        return Effects()
    records = {record.name: record for record in plan.sources if record.name not in known and _is_table(record)}
    if context.guessed or not plan.complete:
        return Effects(unknown=set(records))
    held = {name: weights.value(record) for name, record in records.items()}
    random = np.random.default_rng(0)
    values = {name: _outwards(value, random) for name, value in held.items() if _is_movable(value)}
    unknown = {name for name, value in held.items() if name not in values and value.array.size}
    names = list(values)
    groups = [names[at : at + 1] for at in range(min(len(names), PASSES - 1))] + [names[PASSES - 1 :]]
    found = _acting(context, values, groups)
    within = {name: _inwards(held[name], random) for name in names if name in found.unknown}
    alone = [name for name, value in within.items() if np.any(widen(value) != widen(held[name]))][:PASSES]
    again = _acting(context, within, [[name] for name in alone])
    return Effects({**found.acting, **again.acting}, (unknown | found.unknown) - (set(alone) - again.unknown))


def _acting(context: Context, values: dict[str, Typed], groups: list[list[str]]) -> Effects:
    asked = [{name: values[name] for name in group} for group in groups if group]
    return acting(context, {}, asked) if asked else Effects()


def _is_table(record: Record) -> bool:
    """Whether a tensor is a floating buffer, and no statistic of a normalisation."""
    is_buffer = record.role == "buffer" and record.location is not None and is_floating(record.dtype)
    return is_buffer and record.attrs.get("leaf") not in STATISTICS


def _is_movable(value: Typed) -> bool:
    """Whether a table has finite numbers, of a type that holds small changes."""
    return value.dtype in MOVABLE and bool(np.isfinite(widen(value)).any())


def _outwards(value: Typed, random: np.random.Generator) -> Typed:
    """A table with noise added; what is not finite (a mask's) stays."""
    wide = widen(value)
    finite = wide[np.isfinite(wide)]
    spread = float(np.std(finite)) or float(np.abs(finite).max()) or 1.0
    return narrow(wide + MOVED * spread * np.abs(random.standard_normal(wide.shape)), value.dtype)


def _inwards(value: Typed, random: np.random.Generator) -> Typed:
    """A table whose numbers are nearer to their mean, so that none leaves the range."""
    wide = widen(value)
    share = np.minimum(MOVED * np.abs(random.standard_normal(wide.shape)), 0.5)
    mean = float(np.mean(wide[np.isfinite(wide)]))
    return narrow(np.where(np.isfinite(wide), wide + share * (mean - wide), wide), value.dtype)


def ask(context: Context, values: dict[str, Typed], draw: Callable[[int], Capture]) -> Tables:
    """Whether the port's outputs follow tables that are moved.

    All at once; where they do not, each half, down to single tables.

    Args:
        context: of a check that is aligned; its weights stay moved.
        values: other values for tables.
        draw: draws the inputs of the pass of a number.
    """
    if not values:
        return Tables()
    tries = iter(range(TRIES))

    def asked(names: list[str]) -> Tables:
        number = next(tries, None)
        if number is None:
            return Tables(unasked=set(names))
        followed = _is_followed(context, {name: values[name] for name in names}, draw(number))
        if followed:
            return Tables(followed=set(names))
        if len(names) == 1:
            return Tables(own=set(names)) if followed is False else Tables(unasked=set(names))
        middle = len(names) // 2
        found = together([asked(names[:middle]), asked(names[middle:])])
        if followed is False and found.followed == set(names):  # only together do they show it
            return Tables(own=set(names))
        whole_is_own = followed is False and len(names) == len(values) and not found.own
        return Tables(found.followed, found.unasked) if whole_is_own else found

    return asked(list(values))


def _is_followed(context: Context, values: dict[str, Typed], inputs: Capture) -> bool | None:
    """Whether both sides agree with tables moved.

    None where the reference fails, or what it gives is too weak a test.
    """
    settings = replace(context.settings, draws=())
    context = replace(context, inputs=inputs, settings=settings, artifacts={}, replays={}, part=f"tables-{inputs.path.name}")
    try:
        context.weights = moved_weights.load(context, values)
        found = stage.judged(context)
    except WorkerFailed as failure:
        return None if failure.side == "reference" else False
    return {ALIGNED: True, DIVERGED: False}.get(found.verdict)


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


def undecided(found: Tables) -> list[str]:
    """Why nothing is accepted where every table has to be followed."""
    if not found.unasked:
        return []
    told = (
        "whether the port follows these buffers could not be seen (with other values the reference fails, or its outputs are not finite or "
        f"show too little): {named(sorted(found.unasked))}"
    )
    return [told]
