"""Rules applied to names alone, where no model tells what a tensor belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from paralign.errors import UsageError
from paralign.weights.rules import Rename

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paralign.weights.rules import Rules


class Way(NamedTuple):
    """A tensor's way from one checkpoint to another.

    Several ways from one source take it apart; several ways *into* parts of one destination join it.

    Args:
        source: its name there.
        destination: its name there.
        transform: what becomes of it, as :mod:`paralign.weights.transforms` writes it; None: nothing.
        into: which part of the destination it fills, written likewise; None: all of it.
        shape: of the destination, where only a part of it is filled.
    """

    source: str
    destination: str
    transform: str | None = None
    into: str | None = None
    shape: tuple[int, ...] | None = None


@dataclass
class Followed:
    """What rules make of names.

    Args:
        ways: of all tensors that are not dropped, in their order.
        dropped: names that a rule leaves out.
        untold: names of whose layout no rule speaks; they are laid out as before.
    """

    ways: list[Way] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)


def follow(rules: Rules, names: Sequence[str]) -> Followed:
    """The way of every tensor: its routes.

    Else, unless it is dropped, the first renaming that speaks of it or its module, or none.

    Args:
        rules: what the user wants; ``reference`` are the names given here, ``candidate`` those that they become.
        names: of all tensors.

    Raises:
        UsageError: a rule speaks of no tensor.

    >>> from paralign.weights import Rename, Route, Rules
    >>> found = follow(Rules((Rename("a.*", "b.*"),), (Route("a.{a}.w", "b.{a}.w", "transpose(1, 0)"),)), ["a.0.w", "a.0.b", "c"])
    >>> [tuple(way[:3]) for way in found.ways], found.untold
    ([('a.0.w', 'b.0.w', 'transpose(1, 0)'), ('a.0.b', 'b.0.b', None), ('c', 'c', None)], ['a.0.b', 'c'])
    """
    found = Followed()
    idle = {f"[[route]] number {n}": r.reference for n, r in enumerate(rules.routes, 1)}
    idle |= {f"[[rename]] number {n}": r.reference for n, r in enumerate(rules.renames, 1)}
    idle |= {f"[[drop]] number {n}": r.name for n, r in enumerate(rules.drops, 1) if r.side == "reference"}
    for name in names:
        routed = _routed(rules, name, idle)
        dropped = _dropped(rules, name, idle)
        renamed = _renamed(rules, name, idle)
        if routed:
            found.ways += routed
        elif dropped:
            found.dropped.append(name)
        else:
            found.ways.append(Way(name, renamed))
            found.untold.append(name)
    for where, pattern in idle.items():
        raise UsageError(f"{pattern!r} speaks of no tensor of the source", where=where, hint="mend the pattern, or take the rule out")
    return found


def _routed(rules: Rules, name: str, idle: dict[str, str]) -> list[Way]:
    found = []
    for number, rule in enumerate(rules.routes, 1):
        target = Rename(rule.reference, rule.candidate).applied(name)
        if target is not None:
            idle.pop(f"[[route]] number {number}", None)
            found.append(Way(name, target, rule.transform, rule.into, rule.shape))
    return found


def _dropped(rules: Rules, name: str, idle: dict[str, str]) -> bool:
    spoken = [n for n, rule in enumerate(rules.drops, 1) if rule.side == "reference" and Rename(rule.name, "").applied(name) is not None]
    for number in spoken:
        idle.pop(f"[[drop]] number {number}", None)
    return bool(spoken)


def _renamed(rules: Rules, name: str, idle: dict[str, str]) -> str:
    target = None
    for number, rule in enumerate(rules.renames, 1):
        here = renamed(rule, name)
        if here is not None:
            idle.pop(f"[[rename]] number {number}", None)
            target = here if target is None else target
    return name if target is None else target


def renamed(rule: Rename, name: str) -> str | None:
    """What a renaming, of the tensor or of its module, calls a tensor.

    None where it speaks of neither.

    >>> renamed(Rename("a.{a}", "b.{a}"), "a.3.weight"), renamed(Rename("a", "b"), "c.weight")
    ('b.3.weight', None)
    """
    target = rule.applied(name)
    owner, dot, leaf = name.rpartition(".")
    module = rule.applied(owner) if target is None and dot else None
    return target if module is None else f"{module}.{leaf}"


def first(renames: Iterable[Rename], name: str) -> str:
    """What the first renaming that speaks of a tensor calls it; its own name where none does."""
    return next((target for rule in renames if (target := renamed(rule, name)) is not None), name)
