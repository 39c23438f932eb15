"""Which of the plans that the shapes allow is right, by running the models."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paralign.weights.plan import Choice, Move, Option, Plan, Slot

#: errors up to this many units are alignment
ALLOWED = 1.0

#: an option must lower the error by this factor to be kept while nothing is right yet
BETTER = 0.9

#: options that are compared by what they compute on their way, at most
COMPARED = 40

#: buffers that training makes
STATISTICS = frozenset({"running_mean", "running_var", "_mean", "_variance"})

#: names that a line of text gives before it counts the rest
SHOWN = 6


@dataclass
class Alike:
    """Tensors that the run cannot tell apart: it is right whichever source each takes.

    ``seen`` says that the outputs do depend on them (branches that are added up, say): then each assignment is as right as the other.
    Else nothing shows which is right (heads that only training uses). ``laid_out`` says that it is their layout that is open, not only
    their place.
    """

    candidate: list[str]
    reference: list[str]
    seen: bool
    laid_out: bool = False

    def told(self) -> str:
        """The ambiguity as a line of text."""
        names = f"{_listed(self.candidate)} (from {_listed(self.reference)})"
        if self.seen:
            return f"the outputs are the same whichever way round these are filled: {names}"
        return f"the outputs do not depend on these, so that nothing shows which is which: {names}"


@dataclass
class Proof:
    """What running the models said about a plan.

    Args:
        plan: the one that proved right, or else the one with the least error.
        error: its error in units of what is allowed; infinite where it could not be run.
        changed: what was chosen otherwise than the first plan proposed.
        against: what of that names speak against.
        turned: what of that transposes matrices that are the user's own on both sides.
        ambiguous: tensors that the run cannot tell apart and that names do not tell apart either.
        untested: choices for which no runs or no time were left.
        runs: how often the models were run.
        guess: where no plan is right, the one that evidence speaks for: its error is no more than the first one's; None: the first.
    """

    plan: Plan
    error: float
    changed: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)
    turned: list[str] = field(default_factory=list)
    ambiguous: list[Alike] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    runs: int = 0
    guess: Plan | None = None

    @property
    def right(self) -> bool:
        """Whether the outputs are equal under the plan.

        Of an incomplete one this says something about what it has.
        """
        return self.error <= ALLOWED

    @property
    def proven(self) -> bool:
        """Whether the outputs are equal and every tensor has its place."""
        return self.right and self.plan.complete


def prove(
    plan: Plan,
    run: Callable[[Plan], float],
    limit: int = 64,
    seconds: float = math.inf,
    least: int = 1,
    further: Callable[[Plan], list[Choice]] | None = None,
    clock: Callable[[], float] = time.monotonic,
    agreement: Callable[[Plan], int | None] | None = None,
) -> Proof:
    """Try a plan, then its alternatives, and keep what proves right.

    The alternatives are tried one by one; the option that lowers the error most is kept and the search goes on from there, until
    the error is allowed, nothing lowers it any more, or the runs are used up. Afterwards every choice that names leave open is
    made otherwise once: where the error stays allowed, the run cannot tell.

    Args:
        plan: complete or not; one that lacks more than computed tables is tried as it is, and never proven though its outputs be equal.
        run: gives the error of the float64 outputs under a plan, in units of what is allowed (up to 1 is aligned; NaN counts as
            infinite).
        limit: how often ``run`` may be called, at least once.
        seconds: after which it is not called again; a third of that is left for doubting what is right.
        least: how often it may be called to find what is right even if that takes longer: on a busy machine time alone says little.
        further: gives more choices for a plan that is wrong, most likely ones, that take a run to be told; they are tried first.
        clock: what seconds are counted by; one that stands still while others use the machine gives the same proof on a busy one.
        agreement: how much of what the reference computes on its way is computed under a plan too. It is asked where no plan is right:
            a fault of the model leaves what lies before it equal under the right one. None where it could not be asked.
    """
    search = _Search(run, max(limit, 1), clock() + seconds, max(least, 1), clock)
    proof = Proof(plan, search.error(plan) or 0.0)
    if not proof.right and all(is_computed(m) for m in (*plan.missing, *plan.extra)):
        more = further(plan) if further is not None else []
        if more:
            proof.plan = copy.copy(plan)
            proof.plan.alternatives = [*more, *plan.alternatives]
        _descend(proof, search)
        proof.plan = copy.copy(proof.plan)
        proof.plan.alternatives = plan.alternatives  # what was proposed for a wrong plan says nothing against a right one
        proof.guess = _guess(plan, more, search)
        if proof.error > ALLOWED and agreement is not None:
            search.until = max(search.until, clock() + seconds / 3)
            proof.guess = _most_agreeing(proof.guess or plan, [*more, *plan.alternatives], agreement, search) or proof.guess
    if proof.right:
        proof.plan = _without_computed(proof.plan)
        search.until, search.least = min(search.until, clock() + seconds / 3), 1  # what is right need not be doubted for long
        _doubt(proof, search)
    proof.runs = search.runs
    return proof


def _guess(plan: Plan, choices: Iterable[Choice], search: _Search) -> Plan | None:
    """A likely option of a plan, if it is nearer to being right.

    Nothing has proven it, so its tensors went by the order of execution.
    """
    first = search.error(plan)
    nearest = _nearest(plan, search)
    if nearest is not None:
        return nearest
    for choice in choices:
        chosen = plan.choose(choice.options[0]) if choice.likely else plan
        error = search.error(chosen)
        if error is not None and first is not None and error < first:
            chosen.moves = [replace(m, how="calls") if m.how == "proof" else m for m in chosen.moves]
            return chosen
    return None


def _most_agreeing(plan: Plan, choices: Iterable[Choice], agreement: Callable[[Plan], int | None], search: _Search) -> Plan | None:
    """The plan, with the options under which more is computed as in the reference.

    None where there are none. Each choice is made for itself; what names decide is left, and so are layouts: a softmax along the wrong
    axis is right with queries and keys exchanged, in another order.
    """
    best = plan
    open_choices = [choice for choice in choices if not choice.decided]
    most = agreement(plan) if open_choices else None
    if most is None:
        return None
    options = (option for choice in open_choices for option in choice.options if not option.routes)
    for option in islice(options, COMPARED):
        if search.clock() > search.until:
            break
        other = best.choose(option)
        found = agreement(other) if _changed(best, other) else None
        if found is not None and found > most:
            best, most = other, found
    if best is plan:
        return None
    best.moves = [replace(m, how="calls") if m.how == "proof" else m for m in best.moves]
    return best


def _nearest(plan: Plan, search: _Search) -> Plan | None:
    """The plan's likely option under which the outputs are clearly nearer."""
    first = search.error(plan)
    likely = [option for choice in plan.alternatives if choice.likely for option in choice.options]
    chosen = [plan.choose(option) for option in likely]
    told = []
    for number, each in enumerate(chosen):
        error = search.error(each)
        if error is not None:
            told.append((error, number))
    if first is None or not told:
        return None
    error, number = min(told)
    if error >= first * BETTER:
        return None
    nearest = chosen[number]
    nearest.moves = [replace(m, how="calls") if m.how == "proof" else m for m in nearest.moves]
    return nearest


def _without_computed(plan: Plan) -> Plan:
    """A plan with equal outputs, without the tables that a model computes itself."""
    computed = [m for m in (*plan.missing, *plan.extra) if is_computed(m)]
    if not computed:
        return plan
    found = copy.copy(plan)
    found.missing, found.extra = ([m for m in side if not is_computed(m)] for side in (plan.missing, plan.extra))
    note = "a table that no training changes and only one side keeps: the outputs are equal without it"
    found.dropped = [*plan.dropped, *(replace(m, how="dropped", note=note) for m in computed)]
    return found


def is_computed(move: Move) -> bool:
    """Whether a tensor without a twin may be one that a model computes when it is built."""
    record = move.reference if move.reference is not None else move.candidate
    if record is None or record.attrs.get("leaf") in STATISTICS:
        return False
    return record.role == "buffer" or not record.attrs.get("trainable", True)


@dataclass
class _Search:
    """Runs of plans, each once, up to a limit and a moment."""

    run: Callable[[Plan], float]
    limit: int
    until: float
    least: int
    clock: Callable[[], float]
    known: dict[frozenset[tuple[object, ...]], float] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return len(self.known)

    def error(self, plan: Plan) -> float | None:
        """The error of a plan; None where no run is left for it."""
        moves = _moves(plan)
        if moves not in self.known:
            if len(self.known) >= self.limit or (len(self.known) >= self.least and self.clock() > self.until):
                return None
            error = float(self.run(plan))
            self.known[moves] = math.inf if math.isnan(error) else error
        return self.known[moves]


def _descend(proof: Proof, search: _Search) -> None:
    """Take the option that lowers the error most, until one is right or none helps."""
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
        line = f"{best[1].note}: {best[2].note}"
        proof.changed.append(line)
        proof.against += [line] if best[1].decided else []
        proof.turned += [line] if best[1].turns else []


def _doubt(proof: Proof, search: _Search) -> None:
    """Make every open choice otherwise, and note what comes out as right as well."""
    found: list[tuple[Option, set[Slot]]] = []
    for choice in proof.plan.alternatives:
        if not choice.decided:
            found += _as_right(choice, proof, search)
    for options, slots in _joined(found):
        ours: dict[str, None] = {}
        theirs: dict[str, None] = {}
        for move in proof.plan.carrying:
            if move.slot not in slots:
                continue
            if move.reference is not None:
                ours[move.reference.name] = None
            if move.candidate is not None:
                theirs[move.candidate.name] = None
        seen = any(_seen(proof.plan, option, search) for option in options)
        laid_out = any(option.routes for option in options)
        proof.ambiguous.append(Alike(list(theirs), list(ours), seen, laid_out))


def _as_right(choice: Choice, proof: Proof, search: _Search) -> list[tuple[Option, set[Slot]]]:
    """The options of a choice with equal outputs, each with what it fills otherwise.

    Where the time is up before all of them were tried, the proof says so.
    """
    found = []
    for number, option in enumerate(choice.options):
        other = proof.plan.choose(option)
        changed = _changed(proof.plan, other)
        if not changed:
            continue
        error = search.error(other)
        if error is None:
            tried = f" ({number} of {len(choice.options)} tried)" if number else ""
            proof.untested.append(choice.note + tried)
            break
        if error <= ALLOWED:
            found.append((option, changed))
    return found


def _seen(plan: Plan, option: Option, search: _Search) -> bool:
    """Whether the outputs depend on the tensors of an exchange."""
    from paralign.weights.plan import Option

    order = {slot: number for number, slot in enumerate(option.takes)}
    takes = {slot: origin for slot, origin in option.takes.items() if order[slot] < order.get(origin, -1)}
    if not takes:
        return False
    error = search.error(plan.choose(Option("", takes)))
    return error is not None and error > ALLOWED


def _joined(found: Iterable[tuple[Option, set[Slot]]]) -> list[tuple[list[Option], set[Slot]]]:
    """Options that share slots, together."""
    groups: list[tuple[list[Option], set[Slot]]] = []
    for option, slots in found:
        options: list[Option] = []
        together = set(slots)
        apart = []
        for group in groups:
            if group[1] & slots:
                options += group[0]
                together |= group[1]
            else:
                apart.append(group)
        groups = [*apart, ([*options, option], together)]
    return groups


def _changed(plan: Plan, other: Plan) -> set[Slot]:
    """The slots that another plan fills otherwise."""
    known = _moves(plan)
    return {m.slot for m in other.moves if _move(m) not in known}


def _moves(plan: Plan) -> frozenset[tuple[object, ...]]:
    """What a plan does: equal for plans that do the same."""
    return frozenset(_move(m) for m in plan.moves)


def _move(move: Move) -> tuple[object, ...]:
    reference = move.reference.name if move.reference is not None else ""
    return (reference, move.transform, move.slot[0], move.into)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
