"""Initialisation: the model built under many seeds.

Tensor by tensor the law of its values, tied and equal tensors, the lines.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paralign.comparison.laws import Family
from paralign.context import spent
from paralign.errors import WorkerFailed
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance.programs import initial_values
from paralign.model import ALIGNED, DIVERGED, NOT_TESTED, UNDERPOWERED, Coverage, Divergence, Finding, Pair, Point, StageResult
from paralign.stages.init import fixed_values
from paralign.stages.init.starts import Judged, Start, joined, judge, kept
from paralign.stages.init.wording import Reading, instead, sensitivity
from paralign.worker.protocol import Initial, Started, built_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture
    from paralign.comparison.laws import Law
    from paralign.context import Context
    from paralign.model import Record

#: seeds that the error rates of docs/guide.md were measured with; with fewer nothing is called aligned
SEEDS = 30

#: seconds after which a side begins no other model: 30 of ResNet-50 take 20
PATIENCE = 180.0

#: what is said where no value is drawn
NO_DRAWS = (
    "neither side's values depend on the seed: a checkpoint is loaded, or a seed is set where the model is built; build_untrained() may "
    "build it as a training from scratch begins it"
)

#: what is said where only the candidate draws
LOADED = (
    "the reference's values do not depend on the seed, the candidate's do: a checkpoint is loaded in the reference, or a seed is set where "
    "its model is built; build_untrained() may build it as a training from scratch begins it"
)

#: the error of a scale that is to show
SCALE = 0.1

#: tensors that a text lists
LISTED = 4

#: causes that a result lists
FINDINGS = 5


@dataclass
class _Group:
    """Tensors that hold the same values: mostly one of each side.

    Several where one side packs them.
    """

    references: list[Record]
    candidates: list[Record]

    @property
    def key(self) -> str:
        """What the group is called: the reference's first name."""
        return self.references[0].name


def run(context: Context) -> StageResult:
    """Judge the law of every tensor that both sides have."""
    missing = context.lacking("init", "build_model")
    if missing:
        return missing
    if context.plan is None or context.weights is None:
        return StageResult("init", NOT_TESTED, notes=["nothing says which tensor is which: see `paralign check weights`"])
    seeds, first = context.settings.seeds, context.settings.seed + 1
    order = Initial(seeds, first, min(PATIENCE, context.settings.patience * 3))
    captures = context.record_both("init", order, candidate=replace(order, first=first + seeds))
    result = spent(StageResult("init", method="laws of drawn values"), *captures)
    answers = [Initial.answer(c) for c in captures]
    for side, answer in zip(("reference", "candidate"), answers, strict=True):
        _refuse(side, answer)
    given = [(side, answer.function) for side, answer in zip(("reference", "candidate"), answers, strict=True) if answer.given]
    if given:
        why = "returns one and the same model each time: give a function that builds a new one"
        return StageResult("init", NOT_TESTED, notes=[f"the {side}'s {function}() {why}" for side, function in given])
    groups = _groups(context, answers)
    starts = [{n: kept(c, n) for n in {r.name for g in groups for r in _ends(g)[side]}} for side, c in enumerate(captures)]
    judged = judge([_both(group, starts) for group in groups])
    result.pairs = [_pair(group, found) for group, found in zip(groups, judged, strict=True)]
    _say_laws(context, result, groups, judged)
    _say_places(context, result, groups, captures)
    _say_dependence(context, result, groups, judged, answers)
    _conclude(context, result, judged, answers)
    return result


def _ends(group: _Group) -> tuple[list[Record], list[Record]]:
    return group.references, group.candidates


def _refuse(side: str, answer: Started) -> None:
    """Hand on what building the model raised, with its seed.

    Raises:
        WorkerFailed: it raised.
    """
    failed = answer.failed
    if failed is not None:
        told = f"{answer.function}() under seed {failed.seed}: {failed.raised.message}"
        raise WorkerFailed(failed.raised.type, told, failed.raised.traceback, side=side, frames=failed.raised.frames)


def _groups(context: Context, answers: list[Started]) -> list[_Group]:
    """What holds the same values, aliases left out, in the order of the reference."""
    plan = context.plan
    if plan is None:
        return []
    found: dict[tuple[int, str], Record] = {}
    roots: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for twins in plan.twins:
        ends: dict[tuple[int, str], Record] = {}
        for side, record in enumerate(twins):
            if record.name not in answers[side].shared:
                ends[side, record.name] = record
        met = [end for known in ends if known in roots for end in roots[known]]
        shared = list(dict.fromkeys([*met, *ends]))
        for end in shared:
            roots[end] = shared
        found.update(ends)
    made = []
    for root in {id(each): each for each in roots.values()}.values():
        references, candidates = ([found[end] for end in root if end[0] == side] for side in (0, 1))
        group = _Group(references, candidates)
        if _is_whole(group):
            made.append(group)
    return made


def _is_whole(group: _Group) -> bool:
    """Whether both sides have tensors in a group, with elements."""
    if not group.references or not group.candidates:
        return False
    return 0 not in group.references[0].shape


def _both(group: _Group, starts: list[dict[str, Start | None]]) -> tuple[Start, Start] | None:
    sides = []
    for side, ends in zip(starts, _ends(group), strict=True):
        kept = [side[record.name] for record in ends]
        sides.append([start for start in kept if start is not None])
    if not all(sides):
        return None
    return joined(sides[0]), joined(sides[1])


def _pair(group: _Group, judged: Judged) -> Pair:
    pair = Pair(f"init {group.key}", group.references[0], group.candidates[0], how="weights", verdict=judged.verdict)
    pair.judged = judged.verdict != UNDERPOWERED
    pair.notes = [*judged.notes]
    return pair


def _say_laws(context: Context, result: StageResult, groups: list[_Group], judged: list[Judged]) -> None:
    """Put the laws into words on every pair.

    Name the lines and what to write instead of those that differ.
    """
    sides = [_Words(context, side) for side in ("reference", "candidate")]
    causes: dict[tuple[str, str], list[tuple[_Group, Judged]]] = defaultdict(list)
    wrong: list[tuple[Divergence, tuple[Law, Law]]] = []
    right = [(g, j.laws) for g, j in zip(groups, judged, strict=True) if j.laws is not None and j.verdict != DIVERGED]
    for words, place in zip(sides, (0, 1), strict=True):
        words.excuse(record for group, _ in right for record in _ends(group)[place])
    for group, pair, found in zip(groups, result.pairs, judged, strict=True):
        if found.laws is None:
            continue
        reading = sides[0].reading(group.references[0])
        told = reading.both(found.laws)
        pair.notes.insert(0, f"{told[0]} in the reference, {told[1]} in the candidate")
        if found.verdict == DIVERGED:
            causes[reading.names(found.laws)].append((group, found))
            ends = [words.point(r) for words, r in zip(sides, (group.references[0], group.candidates[0]), strict=True)]
            result.divergences.append(Divergence(ends[0], ends[1], pair))
            wrong.append((result.divergences[-1], found.laws))
    initial_values.follow(context, wrong, [laws[1] for _, laws in right])
    result.divergence = next(iter(result.divergences), None)
    for (one, other), members in list(causes.items())[:FINDINGS]:
        group, found = members[0]
        names = _some([g.candidates[0].name for g, _ in members])
        fix = _fix(context, group, found.laws[0], sides[0].reading(group.references[0])) if found.laws else ""
        result.findings.append(Finding("init/law", f"{names}: {other} in the candidate, {one} in the reference", fix))
    if causes:
        result.notes += sensitivity({r.op for r in context.weights_of_reference})


def _say_places(context: Context, result: StageResult, groups: list[_Group], captures: tuple[Capture, Capture]) -> None:
    """Name tensors whose values no seed changes, and stand at other places on the candidate."""
    sides = [_Words(context, side) for side in ("reference", "candidate")]
    kept_whole = fixed_values.wholes(captures[0]), fixed_values.wholes(captures[1])
    wrong, others = [], []
    for group, pair in zip(groups, result.pairs, strict=True):
        if pair.verdict != ALIGNED or context.plan is None:
            continue
        found = [(record, fixed_values.elsewhere(context.plan, captures, kept_whole, record.name)) for record in group.candidates]
        moved = [(record, each) for record, each in found if each is not None]
        if not moved:
            continue
        record, first = moved[0]
        if first.is_permutation:
            others.append(record.name)
            continue
        pair.verdict = DIVERGED
        pair.notes.append(
            f"the same values stand at other places: element {first.place} is {first.own:g} in the candidate, "
            f"{first.due:g} in the reference"
        )
        ends = [words.point(r) for words, r in zip(sides, (group.references[0], record), strict=True)]
        wrong.append(Divergence(ends[0], ends[1], pair))
    if others:
        result.warnings.append(f"an order that no seed changes is another one in the candidate, and was not judged: {_some(others)}")
    result.divergences += wrong
    result.divergence = next(iter(result.divergences), None)
    for divergence in wrong[:FINDINGS]:
        told = divergence.pair.notes[-1] if divergence.pair is not None else ""
        name = divergence.candidate.name if divergence.candidate is not None else ""
        result.findings.append(Finding("init/law", f"{name}: {told}", "give each element the value that the reference gives it"))


def _fix(context: Context, group: _Group, law: Law, reading: Reading) -> str:
    """What to write in the candidate for a tensor to start by the reference's law."""
    return instead(law, group.candidates[0].name, context.framework("candidate"), is_default=reading.is_default(law))


class _Words:
    """What one side's weights stage knows of its tensors."""

    def __init__(self, context: Context, side: str) -> None:
        self.framework = context.framework(side)
        self.built: dict[str, list[str]] = {}
        self.records: list[Record] = []
        if "weights" in context.artifacts:
            capture: Capture = context.artifacts["weights"][side == "candidate"]
            self.built, self.records = built_of(capture), capture.records
        self._right: set[tuple[str, str]] = set()

    def reading(self, record: Record) -> Reading:
        """How to name the laws of a tensor, whose fans are those of this side."""
        owned = [r for r in self.records if r.attrs.get("owner") == record.attrs.get("owner")]
        return Reading.of(record, owned, self.framework)

    def excuse(self, right: Iterable[Record]) -> None:
        """Take note of the lines that make tensors with right laws."""
        self._right |= {(_leaf(record), line) for record in right for line in self._lines(record)}

    def point(self, record: Record) -> Point:
        """The tensor, with the line that constructed its layer.

        Of a helper that constructs others rightly it is the line that calls it for this one.
        """
        lines = self._lines(record)
        own = [line for line in lines if (_leaf(record), line) not in self._right]
        line = next(iter(own or lines), None)
        return Point(record.name, record.op, line, code_at(line), [each for each in lines if each != line])

    def _lines(self, record: Record) -> list[str]:
        """The lines that constructed the layer of a tensor, the innermost first."""
        owner = str(record.attrs.get("owner", record.name.rpartition(".")[0]))
        while owner and owner not in self.built:
            owner = owner.rpartition(".")[0]
        return self.built.get(owner, [])


def _leaf(record: Record) -> str:
    """What a tensor is called within its layer."""
    return record.name.rpartition(".")[2]


def _say_dependence(context: Context, result: StageResult, groups: list[_Group], judged: list[Judged], answers: list[Started]) -> None:
    """Tensors that are one, or start equal, on one side only."""
    told = [*_tied(context, answers), *_equal(groups, judged)]
    for number, (names, where, what, fix) in enumerate(told):
        key = f"init {what} {number}"
        record = next((r for r in context.weights_of_reference if r.name in names), None)
        pair = Pair(key, record, None, how="weights", verdict=DIVERGED, notes=[f"{_some(names)} {what} in the {where} only"])
        result.pairs.append(pair)
        result.findings.append(Finding("init/dependence", pair.notes[0], fix))
        result.divergences.append(Divergence(Point(names[0]), None, pair))
    result.divergence = next(iter(result.divergences), None)


def _tied(context: Context, answers: list[Started]) -> list[tuple[list[str], str, str, str]]:
    """Names of the reference that are one tensor on one side and several on the other."""
    if context.plan is None:
        return []
    found = []
    for side, where in enumerate(("reference", "candidate")):
        own_roots, other_roots = answers[side].shared, answers[1 - side].shared
        twins: dict[str, dict[str, str]] = defaultdict(dict)
        for ends in context.plan.whole_twins:
            own, other = ends[side].name, ends[1 - side].name
            twins[own_roots.get(own, own)].setdefault(other_roots.get(other, other), ends[0].name)
        fix = "tie them on the candidate too" if side == 0 else "give the candidate tensors of their own"
        found += [(list(others.values()), where, "are one tensor", fix) for others in twins.values() if len(others) > 1]
    return found


def _equal(groups: list[_Group], judged: list[Judged]) -> list[tuple[list[str], str, str, str]]:
    """Drawn tensors that are equal under every seed on one side, and differ on the other."""
    found = []
    drawn = [(g, j) for g, j in zip(groups, judged, strict=True) if j.laws is not None and all(law.drawn for law in j.laws)]
    for side, where in enumerate(("reference", "candidate")):
        alike: dict[Any, dict[Any, str]] = defaultdict(dict)
        for group, found_ in drawn:
            alike[found_.prints[side]].setdefault(found_.prints[1 - side], group.key)
        fix = "copy the first one's values into the others" if side == 0 else "draw each on its own"
        found += [(list(others.values()), where, "start from equal values", fix) for others in alike.values() if len(others) > 1]
    return found


def _name(pair: Pair) -> str:
    """The tensor that a pair is of, as the reference calls it."""
    return "" if pair.reference is None else pair.reference.name


def _conclude(context: Context, result: StageResult, judged: list[Judged], answers: list[Started]) -> None:
    """The verdict, and in numbers what was not looked at."""
    seeds = min(answer.built for answer in answers)
    weak = [_name(p) for p in result.pairs if not p.judged and p.verdict == UNDERPOWERED]
    total = sum(1 for r in context.weights_of_reference if not r.attrs.get("shared"))
    compared = sum(len(j.prints) > 0 for j in judged) - len(weak)
    result.coverage += [Coverage("seeds", seeds, context.settings.seeds), Coverage("tensors", compared, total)]
    result.notes.append(
        f"moments and extremes are of all {answers[0].elements:,} elements, the shape of the law of up to 256 a tensor and seed"
    )
    if weak:
        result.notes.append(f"too small for {seeds} seeds to show a wrong scale, not judged: {_some(weak)}; raise [init] seeds")
    for side, answer in zip(("reference", "candidate"), answers, strict=True):
        if answer.reseeded:
            result.notes.append(f"the {side}'s code sets a seed itself ({', '.join(answer.reseeded)}): it was given another in every build")
    _say_insensitive(result, judged)
    _say_other_laws(result, judged)
    if _is_loaded(judged) and answers[0].function != "build_untrained":
        _leave_open(result)
    verdict = result.verdict_of_pairs
    if verdict == ALIGNED and seeds < SEEDS:
        verdict = UNDERPOWERED
        result.notes.append(f"{seeds} seeds a side were built, {SEEDS} are needed to call laws equal: raise [init] seeds, or the timeout")
    if verdict == ALIGNED and _all_fixed(judged):
        verdict = UNDERPOWERED
        result.notes.append(NO_DRAWS)
    if verdict == NOT_TESTED and weak:
        verdict = UNDERPOWERED
    result.verdict = verdict


def _say_insensitive(result: StageResult, judged: list[Judged]) -> None:
    """Tensors in which a scale wrong by a tenth would not show."""
    insensitive = {_name(p): j.shows for p, j in zip(result.pairs, judged, strict=False) if p.judged and j.shows > SCALE}
    if insensitive:
        result.notes.append(f"a scale wrong by a tenth would not show in {_some(list(insensitive))}: {max(insensitive.values()):.0%} would")


def _say_other_laws(result: StageResult, judged: list[Judged]) -> None:
    """How many tensors follow no law that is known by name."""
    other = 0
    for each in judged:
        if each.laws is not None and each.laws[0].family is Family.OTHER:
            other += 1
    if other:
        result.notes.append(f"{other} tensors follow none of the known laws: compared as samples")


def _all_fixed(judged: list[Judged]) -> bool:
    """Whether nothing is drawn, and something is set to fixed values."""
    laws = [law for each in judged for law in each.laws or ()]
    if any(law.drawn for law in laws):
        return False
    return any(law.family is Family.FIXED for law in laws)


def _is_loaded(judged: list[Judged]) -> bool:
    """Whether the reference draws nothing where the candidate does.

    What its training begins with from scratch is then not known.
    """
    laws = [each.laws for each in judged if each.laws is not None]
    if any(one.drawn for one, _ in laws):
        return False
    if not any(one.family is Family.FIXED for one, _ in laws):
        return False
    return any(other.drawn for _, other in laws)


def _leave_open(result: StageResult) -> None:
    """Say that the reference's laws are not known, and blame no line for them."""
    for pair in result.pairs:
        if pair.verdict == DIVERGED:
            pair.verdict = UNDERPOWERED
    result.findings, result.divergences, result.divergence = [], [], None
    result.notes.append(LOADED)


def _some(names: list[str]) -> str:
    return ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
