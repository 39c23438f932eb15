"""Which of the plans that the shapes allow is right, by running the models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.weights.plan import Choice, Option, Plan

#: errors up to this many units are alignment
ALLOWED = 1.0

#: an option must lower the error by this factor to be kept while nothing is right yet
BETTER = 0.9


@dataclass
class Proof:
    """What running the models said about a plan.

    Args:
        plan: the one that proved right, or else the one with the least error.
        error: its error in units of what is allowed; infinite where it could not be run.
        proven: whether that is alignment.
        changed: what was chosen otherwise than the first plan proposed.
        ambiguous: what else came out as right: the run cannot tell these apart.
        untested: choices for which no runs were left.
        runs: how often the models were run.
    """

    plan: Plan
    error: float
    proven: bool
    changed: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    runs: int = 0


def prove(plan: Plan, run: Callable[[Plan], float], limit: int = 64) -> Proof:
    """Try a plan, then its alternatives, and keep what proves right.

    The alternatives are tried one by one; the option that lowers the error most is kept and the search goes on from there, until
    the error is allowed, nothing lowers it any more, or the runs are used up. Afterwards every choice is made otherwise once:
    where the error stays allowed, the run cannot tell.

    Args:
        plan: complete or not; an incomplete plan is tried as it is and never proven.
        run: gives the error of the float64 outputs under a plan, in units of what is allowed (up to 1 is aligned; NaN counts as
            infinite).
        limit: how often ``run`` may be called, at least once.
    """
    search = _Search(run, max(limit, 1))
    proof = Proof(plan, search.error(plan) or 0.0, proven=False)
    if plan.complete:
        _descend(proof, search)
        proof.proven = proof.error <= ALLOWED
    if proof.proven:
        _doubt(proof, search)
    proof.runs = search.runs
    return proof


@dataclass
class _Search:
    """Runs of plans, each once, up to a limit."""

    run: Callable[[Plan], float]
    limit: int
    known: dict[frozenset[tuple[object, ...]], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return len(self.known)

    def error(self, plan: Plan) -> float | None:
        """The error of a plan; None where no run is left for it."""
        moves = _moves(plan)
        if moves not in self.known:
            if len(self.known) >= self.limit:
                return None
            error = float(self.run(plan))
            self.known[moves] = math.inf if math.isnan(error) else error
        return self.known[moves]


def _descend(proof: Proof, search: _Search) -> None:
    """Take the option that lowers the error most, again and again, until one is right or none is clearly better."""
    while proof.error > ALLOWED:
        best: tuple[float, Choice, Option] | None = None
        for choice, option in [(c, o) for c in proof.plan.alternatives for o in c.options]:
            error = search.error(proof.plan.choose(option))
            if error is not None and error < (proof.error * BETTER if best is None else best[0]):
                best = error, choice, option
            if error is None or error <= ALLOWED:
                break
        if best is None:
            return
        proof.error, proof.plan = best[0], proof.plan.choose(best[2])
        proof.changed.append(f"{best[1].note}: {best[2].note}")


def _doubt(proof: Proof, search: _Search) -> None:
    """Make every choice otherwise, the nearest way first, and note what comes out as right as well."""
    for choice in proof.plan.alternatives:
        for number, option in enumerate(choice.options):
            other = proof.plan.choose(option)
            error = math.inf if _moves(other) == _moves(proof.plan) else search.error(other)
            if error is None:
                proof.untested.append(choice.note + (f" ({number} of {len(choice.options)} tried)" if number else ""))
                break
            if error <= ALLOWED:
                proof.ambiguous.append(f"{choice.note}: {option.note}")


def _moves(plan: Plan) -> frozenset[tuple[object, ...]]:
    """What a plan does: equal for plans that do the same."""
    return frozenset((m.reference.name if m.reference else "", m.transform, m.slot[0], m.into) for m in plan.moves)
