"""Tensors that no run tells apart, placed by the block or the module that they are in."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from paralign.weights.plan import Plan
    from paralign.weights.proof import Alike

NUMBER = re.compile(r"\d+")


def undecided(plan: Plan, alikes: Iterable[Alike]) -> list[str]:
    """The tensors whose place neither an output nor their module tells.

    Args:
        plan: where each tensor went.
        alikes: what no run tells apart.
    """
    unseen = [alike for alike in alikes if not alike.seen]
    silent = {name for alike in unseen for name in alike.reference}
    found: list[str] = []
    for alike in unseen:
        if numbered_alike(plan, alike.reference):
            continue
        if alike.laid_out:
            found += alike.reference
        else:
            found += [name for name in alike.reference if not beside_its_siblings(plan, name, alike.candidate, silent)]
    return found


def numbered_alike(plan: Plan, names: Sequence[str]) -> bool:
    """Whether tensors of several blocks each went to their own block.

    So the bias of keys in every block of a transformer, on which no output depends: softmax takes no notice of it.

    Args:
        plan: where each tensor went.
        names: of the reference's tensors that could stand for each other.
    """
    ends = [(name, record.name) for name in names for record in plan.candidates_of(name)]
    patterns = {tuple(NUMBER.sub("#", name) for name in pair) for pair in ends}
    if len(ends) < len(names) or len(patterns) != 1:
        return False
    references, candidates = (_varying([_numbers(pair[side]) for pair in ends]) for side in (0, 1))
    if references is None or candidates is None:
        return False
    if min(len(set(references)), len(set(candidates))) < len(ends):
        return False
    return len({one - other for one, other in zip(references, candidates, strict=True)}) == 1


def _numbers(name: str) -> list[int]:
    """The numbers in a name, in order."""
    return [int(digits) for digits in NUMBER.findall(name)]


def _varying(rows: list[list[int]]) -> list[int] | None:
    """The one number of names that is not the same in all of them; None where several are not."""
    columns = [list(column) for column in zip(*rows, strict=True) if len(set(column)) > 1]
    return columns[0] if len(columns) == 1 else None


def beside_its_siblings(plan: Plan, name: str, rivals: Sequence[str], open_: Collection[str]) -> bool:
    """Whether a tensor went where the rest of its module went, without alternative.

    So the flag of a layer that only its first call reads: its scale and shift are known by what they do, and it lies beside them.

    Args:
        plan: where each tensor went.
        name: of a tensor of the reference that no output depends on.
        rivals: the tensors of the candidate that fit it, its own among them.
        open_: tensors of the reference whose place no run shows either: they tell nothing of others.
    """
    own = [record.name for record in plan.candidates_of(name)]
    if len(own) != 1 or len(rivals) <= 1:
        return False
    known = [source.name for source in plan.sources if source.name not in open_]
    module = _module(name)
    while module:
        inside = [source for source in known if _below(source, module)]
        there = [record.name for other in inside for record in plan.candidates_of(other)]
        if there:
            home = _common_module(there)
            if not home:
                return False
            return [rival for rival in rivals if _below(rival, home)] == own
        module = _module(module)
    return False


def _module(name: str) -> str:
    """The path without its last part."""
    return name.rpartition(".")[0]


def _below(name: str, module: str) -> bool:
    """Whether a tensor lies in a module or in one of its own."""
    return name.startswith(f"{module}.")


def _common_module(names: Sequence[str]) -> str:
    """The innermost module that holds all of some tensors; '' for the model itself."""
    paths = [_module(name).split(".") for name in names]
    common = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]
    return ".".join(common)
