"""The user's rules, applied to the tensors of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import UsageError
from paralign.weights.rules import Rename
from paralign.weights.transforms import reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.weights.plan import Move
    from paralign.weights.rules import Route, Rules
    from paralign.weights.tensors import Tensor


class Given:
    """Rules, each of which must speak of something."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def routes(self, reference: Sequence[Tensor], candidate: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor, str | None, str | None]]:
        """Tensors that a route leads from and to, with the way.

        Raises:
            UsageError: a route speaks of no tensor, leads to none, or does not fit; with its number.
        """
        theirs = {t.name: t for t in candidate}
        for number, rule in enumerate(self.rules.routes, 1):
            where, spoken = f"[[route]] number {number}", False
            rename = Rename(rule.reference, rule.candidate)
            for tensor in reference:
                target = rename.applied(tensor.name)
                if target is None:
                    continue
                spoken = True
                if target not in theirs:
                    raise UsageError(
                        f"{tensor.name} is led to {target}, which the candidate lacks", where=where, hint="mend the candidate's pattern"
                    )
                _check(tensor, theirs[target], rule, where)
                yield tensor, theirs[target], rule.transform, rule.into
            if not spoken:
                raise _idle(rule.reference, where)

    def drops(self, open_: Sequence[tuple[Tensor, Move]]) -> Iterator[tuple[Tensor, Move]]:
        """Tensors that are to be left out.

        Raises:
            UsageError: a rule speaks of no tensor.
        """
        for number, rule in enumerate(self.rules.drops, 1):
            pattern = Rename(rule.name, "")
            found = [
                (t, m) for t, m in open_ if (m.reference is not None) == (rule.side == "reference") and pattern.applied(t.name) is not None
            ]
            if not found:
                raise _idle(rule.name, f"[[drop]] number {number}", rule.side)
            yield from found

    def renames(self, reference: Sequence[Tensor], candidate: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Tensors, and what the first rename that speaks of them calls them.

        Raises:
            UsageError: a rename speaks of no tensor.
        """
        by_name = {t.name: t for t in candidate}
        by_module = {(t.owner, t.leaf): t for t in candidate}
        idle = dict(enumerate(self.rules.renames, 1))
        for tensor in reference:
            for number, rename in enumerate(self.rules.renames, 1):
                module, name = rename.applied(tensor.owner), rename.applied(tensor.name)
                if module is None and name is None:
                    continue
                idle.pop(number, None)
                found = by_module.get((module, tensor.leaf)) if module is not None else None
                found = found or (by_name.get(name) if name is not None else None)
                if found is not None:
                    yield tensor, found
                break
        for number, rename in idle.items():
            if not any(rename.applied(t.owner) or rename.applied(t.name) for t in reference):
                raise _idle(rename.reference, f"[[rename]] number {number}")


def _check(reference: Tensor, candidate: Tensor, rule: Route, where: str) -> None:
    try:
        there, place = reached(rule.transform, reference.record.shape), reached(rule.into, candidate.record.shape)
    except UsageError as misfit:
        raise UsageError(f"{misfit.what} ({reference.name})", where=where, hint=misfit.hint) from misfit
    if there != place:
        raise UsageError(
            f"{reference.name} has shape {there} after {rule.transform or 'nothing'}; its place in {candidate.name} has {place}",
            where=where,
            hint="mend transform or into",
        )


def _idle(pattern: str, where: str, side: str = "reference") -> UsageError:
    return UsageError(f"{pattern!r} speaks of no tensor of the {side}", where=where, hint="mend the pattern, or take the rule out")
