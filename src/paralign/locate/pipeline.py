"""Where a stage diverges, by single operations, each confirmed by an experiment."""

from __future__ import annotations

import math
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.errors import UsageError, WorkerFailed
from paralign.locate.described import gradient_divergence, merged
from paralign.locate.formula import repaired as repairing
from paralign.locate.gradients.gradient_patching import proven
from paralign.locate.laboratory.few_samples import few_samples
from paralign.locate.laboratory.watched import Recorded, Watched
from paralign.locate.reaching import reached
from paralign.locate.runs.dataflow import Graph
from paralign.locate.shared_lines import divergences as divergences_of
from paralign.locate.suspects import differing_constants, element_types, one_sided, other_ways, random_operations, unreached
from paralign.locate.suspects.faint import faint
from paralign.locate.suspects.patching import guilty, suspected
from paralign.locate.suspects.propose import rank, suspects
from paralign.model import ALIGNED, DIVERGED, CheckResult, Divergence, Finding, Pass, StageResult
from paralign.run.recorder import both
from paralign.worker.protocol import Operations, Redraw, Watch, has_operations, runs_of, watched_pass
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.steps.training import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.locate.laboratory.few_samples import Few
    from paralign.locate.runs.dataflow import Value
    from paralign.locate.runs.judgement import Judgement
    from paralign.locate.types import Guilt

#: lines whose uniform numbers are mirrored by way of trial, at most
MIRRORS = 6


@dataclass
class Searched:
    """What watching a pass came to: guilty operations, remarks.

    ``blurred``: the outputs differ by what coordinates that a kernel computes in float32 explain, and by no more.
    ``clean``: what differs was searched down to the rounding of one constant, in float64, and no operation was found guilty.
    ``untested``: what is said of bounds and constants that differ and that no value shows.
    ``branches``: side -> where its native run takes another way than that in float64.
    ``finer``: what one side alone computes natively in a higher precision than it is given; ``coarser``: in a lower one.
    """

    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blurred: bool = False
    clean: bool = False
    untested: list[str] = field(default_factory=list)
    branches: dict[str, other_ways.OtherWay] = field(default_factory=dict)
    finer: element_types.OneSided | None = None
    coarser: element_types.OneSided | None = None


def forward(context: Context, *, diverged: bool = False) -> Searched:
    """The guilty operations of the forward pass in eval mode, and remarks.

    Args:
        context: of the check.
        diverged: whether the outputs do. If no operation explains it, those are looked for of which many small errors add up.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if context.inputs is None or not context.observed:
        return Searched()
    searched = _on_few(context) if diverged else None
    if searched is not None:
        return searched
    return _searched(Watched(context, Operations([DOUBLE, NATIVE]), {"inputs": context.inputs}), diverged=diverged)


def made_of_numbers(context: Context) -> tuple[set[str], set[str]]:
    """The outputs of either side to which parameters of one number alone lead, and no input.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if context.inputs is None or not context.observed:
        return set(), set()
    watched = Watched(context, Operations([DOUBLE, NATIVE]), {"inputs": context.inputs})
    graphs = [Graph(capture, watched.run_name) for capture in (watched.reference, watched.candidate)]
    first, second = ({path for path, value in graph.outputs.items() if _is_of_numbers(value)} for graph in graphs)
    return first, second


def _is_of_numbers(value: Value) -> bool:
    """Whether a value is made of parameters of one number, and of nothing else."""
    behind = reached([value], lambda each: each.maker.inputs if each.maker is not None else [])
    leaves = [each for each in behind if each.maker is None or not each.maker.inputs]
    return bool(leaves) and all(each.is_parameter and math.prod(each.record.shape) == 1 for each in leaves)


def _watched_few(context: Context) -> tuple[Few, Watched] | None:
    """Both sides watched with some samples; None where that does not show what all show.

    It does not where a side cannot be run without the others, or gives other outputs than with them. That is tried once.
    """
    if context.inseparable is not None and context.inseparable is context.artifacts.get("forward"):
        return None
    few = few_samples(context)
    if few is None:
        return None
    with suppress(WorkerFailed):  # its shapes may be those of the whole batch
        watched = Watched(context, Operations([DOUBLE, NATIVE]), {"inputs": few.inputs})
        if few.are_apart((watched.reference, watched.candidate)):
            return few, watched
    context.inseparable = context.artifacts["forward"]
    return None


def _on_few(context: Context) -> Searched | None:
    """As :func:`forward`, of some samples; None where they do not show what all show."""
    found = _watched_few(context)
    if found is None:
        return None
    few, watched = found
    searched = _searched(watched, diverged=True, whole=False)
    if searched.blurred or not any(each.confirmed and not each.hidden for each in searched.divergences):
        return None
    searched.notes.append(f"located with {len(few.rows)} of the {few.size} samples, each of which differs by itself")
    return searched


def _searched(watched: Watched, *, diverged: bool, whole: bool = True) -> Searched:
    """The guilty operations of a watched pass, and remarks.

    ``whole``: all samples were watched; else it is not said what no value of theirs reached.
    """
    judgement = watched.judgement()
    blurred = judgement.is_blurred()
    unexplained = diverged and not blurred and not judgement.wrong_outputs()
    found, notes, clean = _search(watched, judgement, finely=unexplained)
    if not diverged and not blurred and not found and watched.run_name == DOUBLE:
        found = faint(watched, watched.exact())
    found.sort(key=lambda guilt: not guilt.confirmed)  # what an experiment has shown, before what only ends in a wrong output
    divergences = divergences_of(repairing.repaired(watched, judgement, found), watched)
    natives = watched.natives()
    lowered, coarser = element_types.lowered(judgement, natives), element_types.coarser(natives)
    notes += [*watched.remarks(), *element_types.raised(coarser)]
    untested: list[str] = []
    if whole:
        clamped, hidden = unreached.unreached(judgement), differing_constants.unshown(judgement, natives)
        alone = one_sided.one_sided(judgement)
        notes += [*clamped.notes, *filter(None, [hidden.note, alone.differ]), *alone.notes]
        untested = list(filter(None, (clamped.warning, hidden.warning)))
    branches = {} if watched.run_name == NATIVE else _branches((judgement.reference, judgement.candidate), natives)
    finer = element_types.finer(judgement, natives)
    return Searched(divergences + lowered, notes, blurred, clean and not lowered, untested, branches, finer, coarser)


def _search(watched: Watched, judgement: Judgement, *, finely: bool) -> tuple[list[Guilt], list[str], bool]:
    """The guilty operations, remarks, and whether a fine search found nothing at all.

    ``finely``: first of all, operations are looked for of which many small errors add up.
    """
    if not finely:
        found, notes = guilty(watched, judgement)
        watched.note_confirmed(found)
        return found, notes, False
    fine = watched.judgement(fine=True)
    found, notes = guilty(watched, fine)
    all_found, all_notes = list(found), list(notes)
    if not any(guilt.confirmed for guilt in found):
        found, notes = guilty(watched, judgement)
        all_found += found
        all_notes += notes
    watched.note_confirmed(found)
    return found, notes, _is_clean(watched, fine, all_found, all_notes)


def _branches(doubles: tuple[Graph, Graph], natives: tuple[Graph | None, Graph | None]) -> dict[str, other_ways.OtherWay]:
    """Side -> the first operation that its native run does otherwise than its float64 run."""
    found = {}
    for side, double, native in zip(("reference", "candidate"), doubles, natives, strict=True):
        if native is None:
            continue
        way = other_ways.other_way(double, native)
        if way is not None:
            found[side] = way
    return found


def _is_clean(watched: Watched, fine: Judgement, found: list[Guilt], notes: list[str]) -> bool:
    """Whether a search found no fault, nor a result off by more than a constant's rounding.

    Args:
        watched: both sides.
        fine: the candidate's run, judged by the rounding of one constant.
        found: by the search.
        notes: what the search left out.
    """
    if notes or watched.remarks() or watched.run_name != DOUBLE:
        return False
    if not fine.reference.operations or not fine.candidate.operations or not fine.outputs:
        return False
    if any(guilt.confirmed or guilt.hidden for guilt in found):
        return False
    return not fine.has_slips()


def random(context: Context) -> tuple[list[Divergence], list[Finding], list[str]]:
    """The forward pass in train mode, the candidate drawing what the reference drew.

    Returns:
        Guilty operations, differences in what is random, and remarks; nothing where neither side is random or cannot be watched.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    replay = replayed(context, "train")
    if replay is None:
        return [], [], []
    return replay.divergences, replay.findings, replay.notes


def differs_undecided(context: Context, mode: str) -> bool:
    """Whether a pass with every draw replayed differs, and no operation is shown guilty.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    replay = replayed(context, mode)
    if replay is None or not replay.whole or not replay.wrong or replay.blurred:
        return False
    if replay.findings:
        return False
    return not any(divergence.confirmed for divergence in replay.divergences)


@dataclass
class Replay:
    """What a pass with the reference's draws came to.

    ``use`` says which of the reference's draws each of the candidate's random operations takes, by their numbers among the random ones;
    ``mirrored`` which of them count from above. ``whole``: every draw of both sides was used. ``blurred``: coordinates in float32 explain
    all that differs.
    """

    divergences: list[Divergence]
    findings: list[Finding]
    notes: list[str]
    wrong: bool = True
    use: dict[str, str] = field(default_factory=dict)
    mirrored: list[int] = field(default_factory=list)
    whole: bool = False
    blurred: bool = False

    @property
    def right(self) -> bool:
        """Whether the pass is the same on both sides, with everything random in it replayed."""
        if not self.whole:
            return False
        return not (self.wrong or self.findings or self.divergences)


def replayed(context: Context, mode: str, attempt: str = "", *, backward: bool = False) -> Replay | None:
    """A pass of both sides in one mode, the candidate with the reference's draws.

    None where neither side is random or cannot be watched. ``attempt`` names a run with other weights, not to be used again.
    ``backward`` asks for loss and backward pass in eval mode too.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if attempt:
        return _replayed(context, mode, attempt, backward=backward)
    key = f"{mode} backward" if backward else mode
    if key not in context.replays:
        context.replays[key] = _replayed(context, mode, "", backward=backward)
    found: Replay | None = context.replays[key]
    return found


def _undone(reference: Capture, candidate: Capture) -> str:
    """Which side's run in float64 failed, and of what."""
    for side, capture in (("reference", reference), ("candidate", candidate)):
        for run, reason in runs_of(capture).failed.items():
            if Pass.of(run).precision == DOUBLE:
                return f"the {side} does not run in float64: {reason}"
    return "a side does not run in float64"


def _replayed(context: Context, mode: str, attempt: str, *, backward: bool) -> Replay | None:
    """As :func:`replayed`, always run."""
    if context.inputs is None or not context.observed:
        return None
    if mode == "eval" and not attempt and not backward and _draws_nothing(context):
        context.untested = []
        return None
    plain, values = _asked(context, context.inputs, mode, attempt, backward=backward)
    order, name = replace(plain, runs=[DOUBLE]), "random" if mode == "train" else f"random-{mode}{'-backward' * backward}"
    keeping = replace(order, watch=Watch(redraw=Redraw(keep=True)))
    reference, candidate = both(
        lambda: context.reference.record(name, keeping, values),
        lambda: context.candidate.record(name, order, values),
    )
    sides = [watched_pass(c, DOUBLE).random for c in (reference, candidate) if DOUBLE in runs_of(c).runs]
    if len(sides) < 2:  # noqa: PLR2004 - both sides
        if mode == "eval" and sides == [[]]:  # the side that can be asked draws nothing: operations are compared as they are
            return None
        return Replay([], [], [f"what is random in {mode} mode was not replayed: {_undone(reference, candidate)}"])
    if not any(sides):
        _keep_untested(context, Recorded(reference, candidate).judgement())
        return None
    pairs = random_operations.packed(random_operations.aligned(*sides))
    use = {str(two.number): one.name for one, two in pairs if one is not None and two is not None}
    watched, again = _least_wrong(context, (plain, values), reference, use, random_operations.mirrors(pairs), name)
    divergences: list[Divergence] = []
    notes: list[str] = []
    if context.settings.modules != "none":
        divergences, notes = _located(watched, gradients=plain.backward)
    drawn = watched_pass(again, DOUBLE).random
    done = [said.given for said in drawn]
    pairs = random_operations.apart(pairs, {said.number for said in drawn if said.given is not None})
    notes.append(
        f"{mode} mode: {len(sides[0])} random operations in the reference, {len(sides[1])} in the candidate; "
        f"{len(done) - done.count(None)} drew what the reference drew, and the forward pass"
        f"{', the loss and every gradient were' if plain.backward else ' was'} compared so"
    )
    places = {said.number: place for place, said in enumerate(sides[1])}
    _keep_untested(context, watched.judgement())
    return Replay(
        divergences,
        random_operations.findings(pairs),
        notes,
        bool(watched.judgement().wrong_outputs()),
        {str(places[int(number)]): name for number, name in use.items()},
        [places[number] for number in watched.order.watch.redraw.mirrored],
        whole=None not in done and len(set(done)) == len(sides[0]),
        blurred=watched.judgement().is_blurred(),
    )


def _draws_nothing(context: Context) -> bool:
    """Whether nothing is random in the pass that :func:`forward` watches.

    What is recorded here is taken again there. False where the outputs were not recorded, or a side does not run in float64.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if context.inputs is None or "forward" not in context.artifacts:
        return False
    found = _watched_few(context)
    watched = Watched(context, Operations([DOUBLE, NATIVE]), {"inputs": context.inputs}) if found is None else found[1]
    captures = watched.reference, watched.candidate
    return all(DOUBLE in runs_of(each).runs and not watched_pass(each, DOUBLE).random for each in captures)


def _asked(context: Context, inputs: Capture, mode: str, attempt: str, *, backward: bool) -> tuple[Operations, dict[str, Capture]]:
    """What both sides are asked to do in a mode, and what they are given.

    In train mode, or where it is wanted, with loss and backward pass, as far as there is what these need.
    """
    order = Operations([DOUBLE, NATIVE], mode="apart" if mode == "train" else mode, attempt=attempt)
    if mode != "train" and not backward:
        return order, {"inputs": inputs}
    if context.labels is None or context.untrainable("backward") or context.lacking("backward", "loss"):
        return order, {"inputs": inputs}
    return replace(order, backward=True), {"inputs": inputs, "labels": context.labels}


def _keep_untested(context: Context, judgement: Judgement) -> None:
    """Keep what differs in the loss without effect on any value: bounds, constants."""
    bounds, hidden = unreached.unreached(judgement, loss=True), differing_constants.unshown(judgement, (None, None), loss=True)
    context.untested = list(filter(None, (bounds.warning, hidden.warning, hidden.note)))  # a count is too plain to find its clamp


def _located(watched: _Replayed, *, gradients: bool) -> tuple[list[Divergence], list[str]]:
    """Where a pass with the reference's draws parts, and remarks.

    ``gradients``: where its backward pass does, if it does not.
    """
    found, notes = guilty(watched, watched.judgement())
    if found or not gradients:
        return divergences_of(found, watched), notes
    faults = proven(watched, watched.judged_gradients(), watched.judged_gradients)
    return merged([gradient_divergence(fault, watched.judged_gradients().judgement) for fault in faults]), notes


def _least_wrong(
    context: Context,
    plainly: tuple[Operations, dict[str, Capture]],
    reference: Capture,
    use: dict[str, str],
    mirrors: list[list[int]],
    name: str,
) -> tuple[_Replayed, Capture]:
    """The candidate's run with the reference's draws, and its capture.

    Which end of uniform numbers a program keeps is no difference: they are mirrored where less is wrong then.
    """
    plain, values = plainly
    given = {**values, "draws": reference}

    def run(mirrored: list[int]) -> tuple[_Replayed, Capture]:
        asked = replace(plain, watch=Watch(redraw=Redraw(use=use, mirrored=mirrored)))
        capture = context.candidate.record(f"{name}-replayed", replace(asked, runs=[DOUBLE]), given)
        watched = _Replayed(context, asked, given, name, (reference, capture))
        watched.plainly = plainly
        return watched, capture

    kept: list[int] = []
    best = run(kept)
    for numbers in mirrors[:MIRRORS]:
        before = best[0].judgement()
        if not before.wrong_outputs():
            break
        tried = run([*kept, *numbers])
        if random_operations.wrong_data(tried[0].judgement()) < random_operations.wrong_data(before):
            kept, best = [*kept, *numbers], tried
        else:
            best = run(kept)  # a capture is there until the next of its name
    return best


class _Replayed(Watched):
    """Watched sides of which the candidate draws what the reference drew (``plainly``)."""

    plainly: tuple[Operations, dict[str, Capture]] = Operations([]), {}

    def values(self, wanted: Sequence[Value], *, own: bool = False) -> dict[Value, Typed]:
        """The values of the reference's run, whole; ``own``: of the candidate's."""
        with nullcontext() if own else self._plain():
            return super().values(wanted, own=own)

    def gradients(self, wanted: Sequence[Value]) -> dict[Value, Typed]:
        """The gradients of values of the reference's run, whole."""
        with self._plain():
            return super().gradients(wanted)

    @contextmanager
    def _plain(self) -> Iterator[None]:
        kept = self.order, self.given
        self.order, self.given = self.plainly
        try:
            yield
        finally:
            self.order, self.given = kept


def backward(context: Context, mode: str, after: int = 0, *, slight: bool = False) -> Searched:
    """What is guilty in a step's forward pass, its loss, or else in its backward pass.

    Args:
        context: of the check.
        mode: ``eval``, or ``train`` with what is random switched off.
        after: steps that both sides take before, each by itself.
        slight: whether what differs does so by little more than noise: then operations are searched of which many small errors add up.

    Raises:
        WorkerFailed: a side fails when it is watched.
    """
    if context.inputs is None or context.labels is None or not context.observed:
        return Searched()
    accumulate = context.settings.pace.accumulate if after else 1
    order = Operations([DOUBLE, NATIVE], mode=MODES[mode], backward=True, steps=after, accumulate=accumulate)
    watched = Watched(context, order, {"inputs": context.inputs, "labels": context.labels}, name=f"gradients-{mode}")
    judgement = watched.judgement()
    if after and any(v.maker is None and v.is_parameter for v in judgement.wrong):  # the steps before went other ways
        return Searched()
    found, notes = guilty(watched, judgement)
    if found := repairing.repaired(watched, judgement, found):
        return Searched(divergences_of(found, watched), notes + watched.remarks())
    faults = proven(watched, watched.judged_gradients(), watched.judged_gradients)
    if faults or not slight:
        divergences = merged([gradient_divergence(fault, watched.judged_gradients().judgement) for fault in faults])
        return Searched(divergences, notes + watched.remarks())
    fine = watched.judgement(fine=True)
    found, more = guilty(watched, fine)
    clean = _is_clean(watched, fine, found, [*notes, *more])
    divergences = divergences_of(repairing.repaired(watched, fine, found), watched)
    return Searched(divergences, notes + more + watched.remarks(), clean=clean)


def recorded(reference: Capture, candidate: Capture) -> CheckResult:
    """Where two captures part, without a run: suspects, which only a run could confirm.

    Raises:
        UsageError: a capture that holds no operations.
    """
    for side, capture in (("reference", reference), ("candidate", candidate)):
        if not has_operations(capture) or not capture.complete:
            raise UsageError(
                f"the {side}'s capture holds no operations" if capture.complete else f"the {side}'s capture is incomplete",
                where=str(capture.path),
                hint="name the folders `operations` or `gradients-eval` of a check: result/captures/reference and …/candidate",
            )
    both_sides = Recorded(reference, candidate)
    judgement = both_sides.judgement()
    result = StageResult(reference.manifest.stage or "operations", ALIGNED, f"operations, {both_sides.run_name}")
    order = suspects(judgement)
    likeliest = [s for s in order if rank(judgement, s) == rank(judgement, order[0])]
    found = [suspected(judgement, suspect) for suspect in likeliest]
    result.divergences = divergences_of(found)
    if judgement.candidate.loss is not None and not found:
        gradients = both_sides.judged_gradients()
        for fault in gradients.faults():
            fault.wrong_before = len(gradients.wrong_parameters())
            result.divergences.append(gradient_divergence(fault, judgement))
    if result.divergences:
        result.verdict, result.divergence = DIVERGED, result.divergences[0]
        result.notes.append(
            "nothing was run: which of these points is at fault, and whether others hide behind it, `paralign check` confirms"
        )
    right = sum(map(judgement.is_right, judgement.candidate.values.values()))
    result.notes.append(
        f"{len(judgement.reference.operations)} and {len(judgement.candidate.operations)} operations; "
        f"{right} of {len(judgement.candidate.values)} values of the candidate are the reference's too"
    )
    return CheckResult([result])
