"""Guilt, by experiment: the reference's value in a suspect's place, judged again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from paralign.adapters._kinds import MOVES
from paralign.capture import digest as digests
from paralign.dtypes import Typed, widen
from paralign.locate.reaching import reached
from paralign.locate.runs.construction import own_line
from paralign.locate.runs.counterparts import ALIKE, SLIGHT, same_shape
from paralign.locate.runs.judgement import Judgement
from paralign.locate.runs.slices import Slices
from paralign.locate.runs.traverse import CONTEXT, made_by, makers, taken_by, way_to
from paralign.locate.source.call_arguments import differing
from paralign.locate.suspects import fused_operations, narrowing, repeats
from paralign.locate.suspects.arranging import arranged
from paralign.locate.suspects.patch_evidence import FOLLOWED, followed, improved, places, repaired
from paralign.locate.suspects.propose import Reason, Trial, differs_slightly, fits, region, suspects, trials
from paralign.locate.suspects.repeats import Shown
from paralign.locate.types import Guilt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from paralign.locate.runs.dataflow import Graph, Operation, Value
    from paralign.locate.suspects.repeats import Repeat

#: suspects that are tried before giving up, and trials of each
SUSPECTS, TRIALS = 8, 6

#: trials of one suspect that are found in one way
ALIKE_TRIALS = 2

#: trials of each where only what repairs an output confirms it
OUTRIGHT = 8

#: runs for all calls of lines at fault that may explain nothing: each costs what a trial costs
FUTILE = 4

#: outputs that are further away by this factor with a gross error in a place: what differs there now is slight
FELT = 10 / SLIGHT

#: an input no further from the reference's has no error to hand on
EXACT = 1e-13

#: the place of a value in a run: number of the operation and place among its results
Place = "tuple[int, int]"


@dataclass(frozen=True)
class Patch:
    """A value to be put in place of what an operation of the candidate makes."""

    number: int
    place: int
    op: str
    shape: tuple[int, ...]
    value: Typed


class Laboratory(Protocol):
    """What runs the two sides again."""

    def run(self, patches: Sequence[Patch]) -> Graph | None:
        """The candidate's run with some results replaced; None where it fails with them."""

    def values(self, wanted: Sequence[Value]) -> dict[Value, Typed]:
        """The whole values of the reference's run, as far as it makes them again."""


def guilty(
    laboratory: Laboratory, judgement: Judgement, most: int = 8, runs: int = 32, *, outright: bool = False
) -> tuple[list[Guilt], list[str]]:
    """All independent faults, each confirmed by a run; and remarks.

    Args:
        laboratory: runs the sides again.
        judgement: of the candidate's run as it is.
        most: faults that are looked for.
        runs: runs that may be spent.
        outright: confirm only where a wrong output becomes right. Where all that is computed is nearly proportional, as in an optimizer,
            much comes nearer to some value of the reference.
    """
    return _searched(_Hunt(laboratory, judgement, runs, outright=outright), most)


def guilty_of_little(
    laboratory: Laboratory, judgement: Judgement, most: int, runs: int, is_told: Callable[[Guilt], bool]
) -> tuple[list[Guilt], Judgement | None]:
    """As :func:`guilty`, where outputs agree but for what a rounded constant may bring.

    Args:
        laboratory: runs the sides again.
        judgement: of the candidate's run as it is.
        most: faults that are looked for.
        runs: runs that may be spent.
        is_told: whether a fault is one that is looked for.

    Returns:
        All faults; and the run with the reference's values in place of all but those that are looked for, None where that is all or none.
    """
    hunt = _Hunt(laboratory, judgement, runs, lightly=True)
    found, _ = _searched(hunt, most)
    told = [guilt for guilt in found if is_told(guilt)]
    return found, hunt.without(told) if told else None


def _searched(hunt: _Hunt, most: int) -> tuple[list[Guilt], list[str]]:
    """The faults that a hunt finds, and remarks."""
    hunt.clear()
    notes: list[str] = []
    while len(hunt.lines) < most:
        if not hunt.next():
            break
    else:
        notes.append(f"only the first {most} faults were looked for: repair them and check again")
    if hunt.spent >= hunt.runs:
        notes.append(f"the search ended after {hunt.runs} runs of the candidate")
    for guilt in hunt.found:
        guilt.mended, guilt.replaced = hunt.judgement, {number for number, _ in hunt.patches} - hunt.blurred
    return hunt.found, notes


class _Hunt:
    """The search for one fault after the other, found ones put right."""

    def __init__(self, laboratory: Laboratory, judgement: Judgement, runs: int, *, outright: bool = False, lightly: bool = False) -> None:
        self.laboratory, self.judgement, self.runs, self.outright, self.lightly = laboratory, judgement, runs, outright, lightly
        self.felt: set[Operation] = set()  # suspects of which outputs show every gross error
        self.patches: dict[tuple[int, int], Patch] = {}
        self.found: list[Guilt] = []
        self.lines: set[str | None] = set()
        self.failed: set[tuple[int, int, int]] = set()
        self.blurred: set[int] = set()  # right but for coordinates in float32
        self.handed: list[Operation] = []  # suspects whose slight error is their inputs'
        self.exhausted, self.futile = 0, 0  # so many faults explain no further suspect; runs that explained none
        self._exact: dict[tuple[tuple[int, int], ...], Judgement | None] = {}  # the run with some inputs exact
        self.spent = 0

    def clear(self) -> None:
        """Put the reference's values where kernels compute coordinates in float32."""
        patches = self._patches_of(self.judgement.blurring())
        judged = self._judged(patches) if patches else None
        if judged is not None:
            self.patches.update({(each.number, each.place): each for each in patches})
            self.blurred = {each.number for each in patches}
            self.judgement = judged

    def next(self) -> bool:
        """Look for one more fault; False where none is left, or none can be confirmed."""
        untouched = [s for s in suspects(self.judgement) if self._is_untouched(s)]
        if not untouched:
            return not self.outright and self._end()
        if self._explains(untouched):
            return True
        self.handed.clear()
        self._exact.clear()
        if self._one_of(untouched):
            return True
        if self.handed and self._one_of(self._behind(untouched)):
            return True
        self._suspect(untouched[0])
        return False

    def _is_untouched(self, operation: Operation) -> bool:
        """Whether no result of an operation was replaced."""
        return all((operation.number, v.place) not in self.patches for v in operation.outputs)

    def _one_of(self, among: list[Operation]) -> bool:
        """Try what may be due in the place of some suspects; True where one is at fault."""
        most, alike = (OUTRIGHT, OUTRIGHT) if self.outright else (TRIALS, ALIKE_TRIALS)
        plans = [_plan(self.judgement, suspect, most, alike) for suspect in among[:SUSPECTS]]
        everything = list(chain.from_iterable(plans))
        values = self.laboratory.values(list(dict.fromkeys(trial.due for trial in everything)))
        for trial in self._in_turn(sorted(everything, key=self._outputs_last if self.outright else self._cost)):
            if trial.due in values and self.spent < self.runs and self._try(trial, values[trial.due]):
                return True
            self.failed.add(_named(trial))
        if self.outright:
            return False
        for plan in plans:
            if not plan or plan[0].why is not Reason.TWIN:
                continue
            if self._is_hidden(plan[0], values):
                return True
        return False

    def _behind(self, tried: list[Operation]) -> list[Operation]:
        """What is wrong of right inputs before suspects that only inherit their error.

        A sum with greater values can hide the error of one of its parts, until something takes these away.
        """
        odd: list[Operation] = []
        for operation in reached(self.handed, lambda each: makers(each.inputs)):
            if operation in tried or not self._is_untouched(operation):
                continue
            if differs_slightly(self.judgement, operation):
                odd.append(operation)
        return sorted(odd, key=lambda operation: operation.order)

    def _is_hidden(self, trial: Trial, values: Mapping[Value, Typed]) -> bool:
        """Whether an operation is wrong of right inputs, and what follows hardly uses it.

        Then no value that is computed of it could come nearer to the reference's. Where the two have other arguments, that is the fault.
        """
        twin, operation = trial.twin, trial.suspect
        if trial.value.maker is not operation or twin is None or twin.kind != operation.kind:
            return False
        if self.judgement.wrong_outputs() or trial.due not in values or self.spent >= self.runs:
            return False
        if any(min(self.judgement.error[v], ALIKE) > self.judgement.scale.equal / 10 for v in self._made_of(trial.value)):
            return False  # it shows, and was no better with the reference's value
        if self._inherited(trial):
            return False
        patch = _patch(trial.value, values[trial.due])
        judged = self._judged([*self.patches.values(), patch])
        if judged is None:
            return False
        self.patches[patch.number, patch.place] = patch
        other = bool(differing(operation.arguments, twin.arguments))
        guilt = Guilt(trial, self.judgement, confirmed=other, error=_error(trial), after=_after(judged), seen=False, hidden=True)
        self.found.append(guilt)
        self.lines.add(own_line(self.judgement.candidate, operation))
        self.judgement = self._with_repeats(guilt, judged)
        return True

    def _outputs_last(self, trial: Trial) -> tuple[bool, bool, bool, int]:
        """In the order of suspects, outputs last."""
        return trial.why is Reason.OUTPUT, False, False, 0

    def _made_of(self, value: Value) -> list[Value]:
        """What is computed of a value, past what only moves it."""
        return made_by(user for user, _ in followed(self.judgement, value) if user.kind not in MOVES)

    def _cost(self, trial: Trial) -> tuple[bool, bool, bool, int]:
        """The order of trials: one operation before several, few before many, masks last.

        A mask that only says the other way round what is kept comes after all that.
        """
        turned = self.judgement.is_complement(trial.value)
        return trial.why is Reason.OUTPUT, turned, _named(trial) in self.failed, _extent(trial)

    def _try(self, trial: Trial, value: Typed) -> bool:
        """Put a reference's value in place; keep it and the fault if less is wrong then."""
        patch = _patch(trial.value, value)
        more = self._turned_alike(trial) if trial.why is Reason.ORDER else []
        judged = self._judged([*self.patches.values(), patch, *more])
        if judged is None or not self._confirms(trial, judged):
            self._feel(trial, judged)
            return False
        if not self.outright and trial.suspect not in self.felt and _extent(trial) > 1:
            trial, patch, judged = self._narrowed(trial, patch, judged)
        self.patches.update({(each.number, each.place): each for each in (patch, *more)})
        guilt = Guilt(
            trial,
            self.judgement,
            confirmed=trial.why is not Reason.OUTPUT or len(trial.region) == 1,
            error=_error(trial),
            after=_after(judged),
            seen=bool(self.judgement.wrong_outputs()),
        )
        if not self.outright and sum(o.kind not in MOVES for o in trial.region) > 1:
            guilt.slices = self._slices(trial)
        self.found.append(guilt)
        self.lines.add(own_line(self.judgement.candidate, trial.value.maker or trial.suspect))
        self.judgement = self._with_repeats(guilt, judged)
        return True

    def _in_turn(self, ordered: list[Trial]) -> Iterator[Trial]:
        """Trials in their order; what would be gross errors of suspects without any comes last."""
        later: list[Trial] = []
        for trial in ordered:
            if trial.suspect in self.felt and _error(trial) > SLIGHT:
                later.append(trial)
            else:
                yield trial
        yield from later

    def _feel(self, trial: Trial, judged: Judgement | None) -> None:
        """Note a suspect of which a run shows that outputs would differ more by a gross error."""
        error, after, before = _error(trial), None if judged is None else _after(judged), _after(self.judgement)
        if self.lightly and error > SLIGHT and after is not None and before is not None and after > FELT * before * max(1.0, error):
            self.felt.add(trial.suspect)

    def without(self, guilts: Sequence[Guilt]) -> Judgement | None:
        """The run with all the reference's values that were put in place but those of some faults.

        None where none are left, or it fails.
        """
        numbers = {maker.number for guilt in guilts for maker in (guilt.trial.value.maker, *guilt.repeats) if maker is not None}
        left = [patch for patch in self.patches.values() if patch.number not in numbers]
        return self._judged(left) if left else None

    def _narrowed(self, trial: Trial, patch: Patch, mended: Judgement) -> tuple[Trial, Patch, Judgement]:
        """A trial with its patch and run; of a value inside its region where that does."""
        end = trial.value.maker
        proposed = narrowing.proposals(self.judgement, trial)
        values = self.laboratory.values([each.due for each in proposed]) if proposed else {}
        for inner in proposed:
            if inner.due not in values or self.spent >= self.runs or end is None:
                continue
            inside = _patch(inner.value, values[inner.due])
            judged = self._judged([*self.patches.values(), inside])
            result = None if judged is None else places(judged).get((end.number, trial.value.place))
            if judged is None or result is None or not judged.is_right(result) or not _is_as_good(judged, mended):
                continue
            inner.region = narrowing.left_of(trial, inner)
            if inner.region:
                inner.suspect = inner.region[0]
                return inner, inside, judged
        return trial, patch, mended

    def _confirms(self, trial: Trial, judged: Judgement) -> bool:
        """Whether a run with the reference's value in place shows that a trial is right."""
        if self.outright:
            return repaired(self.judgement, judged)
        return improved(self.judgement, judged, trial) and not self._inherited(trial)

    def _slices(self, trial: Trial) -> Slices | None:
        """What the reference makes on the way to what is due: values and fused steps."""
        way = [o for o in reversed(way_to(self.judgement, trial.due, len(trial.region) + CONTEXT)) if not o.written]
        values = dict.fromkeys(v for v in made_by(way) if v.digest is not None)
        values.pop(trial.due, None)
        fused = list(filter(_is_fused, way))
        taken = dict.fromkeys(filter(_is_recorded, taken_by(fused)))
        arrays = self.laboratory.values(list(dict.fromkeys([*values, *taken, trial.due])))
        if trial.due not in arrays:
            return None
        found = [arrays[v].array for v in values if v in arrays]
        masks: list[np.ndarray] = []
        unscaled: list[np.ndarray] = []
        unknown = taken.keys() - arrays.keys()
        for operation in fused:
            if not unknown.isdisjoint(operation.inputs):
                continue
            inputs = [widen(arrays[v]) for v in operation.inputs if v in arrays]
            found += fused_operations.steps(operation.kind, inputs, operation.arguments)
            masks += fused_operations.masks(operation.kind, inputs, operation.arguments)
            unscaled += fused_operations.unscaled(operation.kind, inputs, operation.arguments)
        return Slices([*found, arrays[trial.due].array], masks, unscaled)

    def _turned_alike(self, trial: Trial) -> list[Patch]:
        """The other results of the line that brought elements into a wrong order."""
        maker = trial.value.maker
        if maker is None:
            return []
        pairs: list[tuple[Value, Value]] = []
        for other in self.judgement.candidate.operations:
            if other is maker or other.written or (other.kind, other.source) != (maker.kind, maker.source):
                continue
            for value in filter(self.judgement.disordered, other.outputs):
                due = [p for p in self.judgement.partners(value) if same_shape(p, value) and fits(value, p)]
                if due:
                    pairs.append((value, due[0]))
        return self._patches_of(pairs)

    def _patches_of(self, pairs: Sequence[tuple[Value, Value]]) -> list[Patch]:
        """The reference's values in place of the candidate's, as far as they are made again."""
        values = self.laboratory.values([due for _, due in pairs])
        return [_patch(value, values[due]) for value, due in pairs if due in values]

    def _inherited(self, trial: Trial) -> bool:
        """Whether a slight error is the inputs': of the reference's, the result is right."""
        slight = trial.value in self.judgement.wrong and _error(trial) <= SLIGHT  # nothing in another order is slightly wrong
        if not slight or self.spent >= self.runs:
            return False
        pairs = self._inexact(trial)
        if not pairs:
            return False
        patches = self._patches_of(pairs)
        if len(patches) < len(pairs):
            return False
        judged = self._with_exact(patches)
        maker = trial.value.maker
        if judged is None or maker is None:
            return False
        made = places(judged).get((maker.number, trial.value.place))
        if made is None or made in judged.wrong:
            return False
        self.handed.append(trial.suspect)
        return True

    def _inexact(self, trial: Trial) -> list[tuple[Value, Value]]:
        """What a suspect or region takes that is right but not exactly, with the reference's."""
        judgement, within = self.judgement, trial.region or [trial.suspect]
        pairs: list[tuple[Value, Value]] = []
        for value in dict.fromkeys(taken_by(within)):
            if value.maker is None or value.maker in within:
                continue
            if not judgement.is_right(value) or judgement.error[value] <= EXACT:
                continue
            pairs += [(value, due) for due in judgement.partners(value)[:1] if fits(value, due)]
        return pairs

    def _with_exact(self, patches: list[Patch]) -> Judgement | None:
        """The run with some inputs exact, made once."""
        replaced = tuple((patch.number, patch.place) for patch in patches)
        if replaced not in self._exact:
            self._exact[replaced] = self._judged([*self.patches.values(), *patches])
        return self._exact[replaced]

    def _judged(self, patches: Sequence[Patch]) -> Judgement | None:
        self.spent += 1
        graph = self.laboratory.run(patches)
        if graph is None:
            return None
        old = self.judgement
        return Judgement(old.reference, graph, old.noise, old.scale, old.matches, old.homes)

    def _end(self) -> bool:
        """An output that is right in itself, but not what is due: something is missing after it."""
        for first, second in self.judgement.misplaced():
            maker = second.maker
            if maker is None or maker.written or (maker.number, second.place) in self.patches:
                continue
            trial = Trial(maker, second, first, Reason.END, first.maker, [maker])
            patches: list[Patch] = []
            if first.maker is None or not first.maker.written:
                patches = self._patches_of([(second, first)])
            judged = None
            if patches and self.spent < self.runs:
                judged = self._judged([*self.patches.values(), *patches])
            self.found.append(Guilt(trial, self.judgement, confirmed=judged is not None, error=_error(trial)))
            if judged is None:
                return False
            self.patches[patches[0].number, patches[0].place] = patches[0]
            self.judgement = judged
            return True
        return False

    def _suspect(self, suspect: Operation) -> None:
        """Keep the likeliest suspect, where nothing was confirmed and something is wrong."""
        if self.judgement.wrong_outputs() and not self.found:
            self.found.append(suspected(self.judgement, suspect))

    def _with_repeats(self, guilt: Guilt, judged: Judgement) -> Judgement:
        """The same fault at other calls of its line, where outputs do not lead to them."""
        if judged.wrong_outputs():
            return judged  # the next suspects tell whether this line explains them
        return self._jointly(repeats.of_fault(judged, guilt, ()), judged) or judged

    def _explains(self, untouched: list[Operation]) -> bool:
        """Whether one run shows that confirmed lines explain suspects at other calls of theirs."""
        if len(self.found) == self.exhausted or self.futile >= FUTILE:
            return False
        known = [guilt for guilt in reversed(self.found) if guilt.confirmed and not guilt.hidden]
        suspected = set(untouched[:SUSPECTS])
        close = {guilt: repeats.closeness(self.judgement, guilt, suspected) for guilt in known}
        known.sort(key=lambda guilt: -close[guilt])
        concerned = [guilt for guilt in known if close[guilt]]
        if not concerned:
            return False
        self.exhausted = len(self.found)
        attempts = [concerned]
        if len(concerned) < len(known):
            attempts.append(known)
        for guilts in attempts:
            among = [each for each in repeats.apart(self.judgement, guilts, suspected) if self._is_open(each)]
            judged = self._jointly(among, self.judgement)
            if judged is not None:
                self.judgement = judged
                return True
        return False

    def _is_open(self, repeat: Repeat) -> bool:
        """Whether the reference's value can be put at a further call, and was not yet."""
        return repeat.place not in self.patches and fits(repeat.value, repeat.due)

    def _jointly(self, among: list[Repeat], judged: Judgement) -> Judgement | None:
        """A run with the reference's values at further calls; None where it explains none.

        From the first call on that has another fault besides, the values are taken away again: they would hide it.
        """
        if not among:
            return None
        values = self._patches_of([(each.value, each.due) for each in among])
        if len(values) < len(among):
            return None
        patches = dict(sorted(zip(among, values, strict=True), key=lambda item: item[0].value.order))
        while patches and self.spent < self.runs:
            again = self._judged([*self.patches.values(), *patches.values()])
            if again is None or len(again.wrong) >= len(judged.wrong):
                return None
            shown = {each: repeats.shown(each, judged, again) for each in patches}
            self.futile += Shown.FAULT not in shown.values()
            if not {Shown.RIGHT, Shown.FAULT}.issuperset(shown.values()):
                patches = {each: patches[each] for each in repeats.kept(shown)}
                continue
            explained = [each for each, said in shown.items() if said is Shown.FAULT]
            if not explained:
                return None
            self._keep(patches, explained, again)
            return again
        return None

    def _keep(self, patches: dict[Repeat, Patch], explained: list[Repeat], again: Judgement) -> None:
        """Keep the reference's values at further calls, and note which of these have the fault."""
        self.patches.update({each.place: patch for each, patch in patches.items()})
        for each in explained:
            operation = each.guilt.judgement.candidate.numbered(each.place[0])
            if operation is not None:
                each.guilt.repeats.append(operation)
            each.guilt.after = _after(again)


def _is_as_good(judged: Judgement, other: Judgement) -> bool:
    """Whether no more outputs are wrong in one run than in another."""
    return len(judged.wrong_outputs()) <= len(other.wrong_outputs())


def _extent(trial: Trial) -> int:
    """How many operations a trial puts to blame that compute something."""
    if len(trial.region) == 1:
        return 1
    computing = sum(operation.kind not in MOVES for operation in trial.region)
    if computing:
        return computing
    return 1 if trial.why is Reason.BEFORE else FOLLOWED  # of what is put before one operation the region is empty


def _is_fused(operation: Operation) -> bool:
    """Whether the steps inside an operation are known, and nothing changed what it takes."""
    if operation.kind not in fused_operations.KNOWN:
        return False
    return not any(maker.written for maker in makers(operation.inputs))


def _is_recorded(value: Value) -> bool:
    """Whether a value can be fetched: it was computed, or has a name."""
    return value.maker is not None or bool(value.record.name)


def _named(trial: Trial) -> tuple[int, int, int]:
    """What is put where, by numbers that hold in every run."""
    maker = trial.value.maker
    return (maker.number if maker is not None else -1, trial.value.place, trial.due.order)


def suspected(judgement: Judgement, suspect: Operation) -> Guilt:
    """A suspect that no experiment was made on."""
    plan = _plan(judgement, suspect)
    wrong = next((v for v in suspect.outputs if v in judgement.wrong), suspect.outputs[0])
    trial = plan[0] if plan else Trial(suspect, wrong, wrong, Reason.NONE, judgement.twin(suspect), [suspect])
    return Guilt(trial, judgement, confirmed=False, error=_error(trial), seen=bool(judgement.wrong_outputs()))


def _plan(judgement: Judgement, suspect: Operation, most: int = TRIALS, alike: int = ALIKE_TRIALS) -> list[Trial]:
    """The trials of a suspect that are worth a run; that of an output comes last."""
    ways: Counter[Reason] = Counter()
    plan: list[Trial] = []
    for trial in trials(judgement, suspect):
        ways[trial.why] += 1
        if trial.why is Reason.OUTPUT:
            is_wanted = ways[trial.why] == 1 and len(plan) <= most
        else:
            is_wanted = ways[trial.why] <= alike and len(plan) < most
        if is_wanted:
            plan.append(trial)
    for trial in plan:
        trial.region = region(judgement, suspect, trial.value)
    return plan


def _patch(value: Value, due: Typed) -> Patch:
    maker = value.maker
    if maker is None:
        raise AssertionError("only results of operations are replaced")
    return Patch(maker.number, value.place, maker.op, value.shape, Typed(arranged(due.array, value.shape), due.dtype))


def _error(trial: Trial) -> float:
    if trial.value.digest is None or trial.due.digest is None:
        return float("inf")
    return digests.distance(trial.due.digest, trial.value.digest)


def _after(judgement: Judgement) -> float | None:
    """The largest error of the outputs with the reference's value in place."""
    return max((far for _, _, far in judgement.outputs), default=None)


__all__ = ["Guilt", "Laboratory", "Patch", "guilty", "guilty_of_little"]
