"""Which tensor of the candidate takes which of the reference.

Proposed from names and order, then proven by running both models.
"""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from paralign import weights as mapping
from paralign.capture import Capture, CaptureWriter, clear
from paralign.dtypes import Typed, narrow, widen
from paralign.errors import WorkerFailed
from paralign.locate import pipeline
from paralign.locate.runs.value_index import Values
from paralign.model import DIVERGED, Manifest, Tolerance
from paralign.run.recorder import both
from paralign.stages.common import lower_precision
from paralign.stages.common.forward_passes import reference_alone
from paralign.stages.common.judging import FLOAT64, PARTLY, PERTURBATION, choose, final, paired, points_of
from paralign.stages.weights import acting, uses
from paralign.worker.protocol import Calls, Forward, Load, Lowered
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from paralign.context import Context
    from paralign.model import Record, StageResult
    from paralign.run.recorder import Recorder
    from paralign.stages.common.judging import Method
    from paralign.weights import Choice, Plan, Proof

#: how often at most, for how many seconds of processor time, and how often at least models are run to find the assignment that is right
RUNS, SECONDS, LEAST = 200, 60.0, 16

#: how far the digests of one value may lie apart in both sides' float64 runs
SAME = 1e-7

#: what an error counts as that is infinite, beside others that are not
WORST = 1e30

#: how far tensors that say nothing by themselves are moved for a proof, in units of their own spread (of one where they are constant)
MOVED = 0.1

MOVABLE = ("float64", "float32", "float16", "bfloat16")

#: choices by which the candidate lays out the same numbers otherwise than the reference
FUSED = ("the order inside fused projections", "the order of the parts of fused projections")


def planned(context: Context, reference: Capture, candidate: Capture) -> Plan:
    """The first proposal: by the user's rules, names, likeness and the order of execution.

    Raises:
        UsageError: a rule speaks of no tensor, or does not fit.
    """

    def plan(calls: tuple[list[str], list[str]] | None) -> Plan:
        return mapping.plan(
            reference.records,
            candidate.records,
            context.framework("reference"),
            context.framework("candidate"),
            calls=calls,
            rules=context.settings.rules,
        )

    return plan(None if context.inputs is None else _calls(context, context.inputs))


def _calls(context: Context, inputs: Capture) -> tuple[list[str], list[str]] | None:
    """Both sides' modules in the order of execution.

    Seen with all samples: a model may keep what it made of its first inputs.

    None where a side cannot be run, which the stages that run it will tell.
    """
    values = {"inputs": inputs}
    try:
        found = both(lambda: context.reference.record("calls", Calls(), values), lambda: context.candidate.record("calls", Calls(), values))
    except WorkerFailed:
        return None
    ours, theirs = (list(Calls.answer(capture).calls) for capture in found)
    return ours, theirs


def proven(context: Context, result: StageResult, plan: Plan, candidate: Capture) -> tuple[Plan, Proof | None]:
    """The plan, and what running both models in float64 says of it.

    Where the shapes allow others, the one that proves right.

    A plan that leaves tensors without a twin is tried as well: what it says of the others may be right or wrong.

    Args:
        context: of the check.
        result: gets notes and warnings.
        plan: the first proposal.
        candidate: the candidate's state as it was built.
    """
    if (plan.complete and not plan.alternatives) or not plan.moves or context.inputs is None:
        return plan, None
    with Trials.under_way(context, plan) as trials:
        proof = trials.prove(plan)
        left = trials.seconds_left
        guess = proof.guess or plan
        replayed = not proof.right and trials.agrees_replayed(guess)
    if replayed:
        result.notes.append("proven: with what the reference draws in eval mode, the outputs are equal under the likeliest assignment")
        return guess, replace(proof, plan=guess, error=0.0, changed=[], against=[])
    if not proof.right:
        proof = _of_what_acts(context, result, plan, candidate, left) or proof
    tried = f"assignments that the shapes allow, tried by running both models: {proof.runs}"
    if not proof.right:  # then what diverges is looked for under the likeliest
        result.notes.append(f"{tried}; none makes the outputs equal: the model differs, or the weights do")
        return proof.guess or plan, proof
    changed = f"; another than the first is right for {_some(proof.changed)}" if proof.changed else ""
    result.notes.append(f"proven: {tried}{changed}")
    result.warnings += [
        f"the outputs are equal only against what names say ({line}): a checkpoint that is loaded by name would give others"
        for line in proof.against
    ]
    result.warnings += [
        f"the outputs are equal only with these in another layout ({line}), which is the program's own on both sides: "
        "a checkpoint that is loaded as it is would give others"
        for line in proof.turned
    ]
    result.warnings += [
        f"the outputs are equal only with another order of elements ({line}): a checkpoint whose tensors are copied as they lie would give "
        "others; `paralign convert` writes them in that order"
        for line in proof.changed
        if line.startswith(FUSED)
    ]
    if not proof.plan.complete:
        result.notes.append("the outputs are equal although not all tensors have a counterpart: what is missing does not act on them")
    proof = _follow_copies(context, result, proof, candidate)
    result.notes += [f"ambiguous: {alike.told()}" for alike in proof.ambiguous]
    result.notes += [f"not tried, for want of time: {line}" for line in proof.untested]
    return proof.plan, proof


def _of_what_acts(context: Context, result: StageResult, plan: Plan, candidate: Capture, seconds: float) -> Proof | None:
    """A proof with the tensors that the forward pass takes mapped before the others.

    Where it proves nothing either, it is the likeliest plan if it finds a place for more tensors; None where it does not. It takes no more
    than what the first search left of its ``seconds``, and a few runs.
    """
    if context.settings.rules is not None and any(vars(context.settings.rules).values()):
        return None
    if plan.complete and not plan.ambiguous:
        return None
    found = uses.recorded(context)
    parts = None if found is None else acting.divided(_recorded(context), candidate, found)
    if parts is None:
        return None
    taken, left = parts
    first = _plan_of(context, *taken, _calls(context, context.inputs) if context.inputs is not None else None)
    with Trials.under_way(context, first) as trials:
        proof = trials.prove(first, seconds)
    if not proof.right:
        proof.plan = proof.guess or first
    equal = _equal(_recorded(context)), _equal(candidate)
    proof, copies = acting.joined(proof, left, partial(_plan_of, context), equal, fetching(_recorded(context)))
    if not proof.right and _left_over(proof.plan) >= _left_over(plan):
        return None
    result.notes.append(
        f"mapped first: the {len(taken[0])} tensors that the forward pass takes; of {len(left[0])} that it does not, {len(copies)} have "
        "their places as copies of others"
    )
    return proof


def _left_over(plan: Plan) -> int:
    """Tensors without a counterpart that no model computes for itself."""
    return sum(1 for move in (*plan.missing, *plan.extra) if not mapping.is_computed(move))


def _plan_of(
    context: Context, reference: Sequence[Record], candidate: Sequence[Record], calls: tuple[list[str], list[str]] | None = None
) -> Plan:
    """The first proposal for some of the tensors."""
    frameworks = context.framework("reference"), context.framework("candidate")
    return mapping.plan(reference, candidate, *frameworks, calls=calls)


def _follow_copies(context: Context, result: StageResult, proof: Proof, candidate: Capture) -> Proof:
    """The proof with unseen tensors placed as those that they are copies of.

    No output depends on them; averaged weights are such.
    """
    unseen = {name for alike in proof.ambiguous if not alike.seen for name in alike.reference}
    if not unseen:
        return proof
    plan, copies = mapping.follow_copies(proof.plan, unseen, (_equal(_recorded(context)), _equal(candidate)))
    followed = {name for copy in copies for name in copy.names}
    result.notes += [copy.told() for copy in copies]
    return replace(proof, plan=plan, ambiguous=[a for a in proof.ambiguous if not followed.issuperset(a.reference)])


def _equal(capture: Capture) -> Callable[[str, str], bool]:
    """Whether two tensors of a state hold the same values, bit for bit."""
    fetch = fetching(capture)

    def equal(one: str, other: str) -> bool:
        first, second = fetch(one), fetch(other)
        if first is None or second is None:
            return False
        return first.dtype == second.dtype and np.array_equal(first.array, second.array)

    return equal


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def load(context: Context, plan: Plan) -> Capture:
    """Load the reference's state into the candidate by a plan.

    The candidate's state as it then is.
    """
    return context.candidate.record("loaded", Load(), values={"state": write(context, plan, fetching(_recorded(context)))}, prelude=True)


def write(context: Context, plan: Plan, fetch: Callable[[str], Typed | None], only: Collection[str] | None = None) -> Capture:
    """The candidate's state, made from the reference's by the plan, as a capture.

    With ``only``, some tensors of it.
    """
    folder, key = context.candidate.folder / "given", _recorded(context).manifest.settings.get("key")
    clear(folder)
    named = hashlib.sha256(repr([key, plan.rows(), sorted(only or ())]).encode()).hexdigest()
    with CaptureWriter(folder, Manifest(side="candidate", stage="weights", settings={"key": named})) as writer:
        for target in plan.targets:
            value = plan.assemble(target.name, fetch) if only is None or target.name in only else None
            if value is not None:
                writer.add(target.name, value, role=target.role)
    return Capture.open(folder)


def _recorded(context: Context) -> Capture:
    if context.weights is None:
        raise ValueError("the reference's weights are recorded first")
    return context.weights


def fetching(capture: Capture) -> Callable[[str], Typed | None]:
    """Name of a tensor -> its value in a capture, None for one that is not there."""
    held = {r.name: r for r in capture.records if r.location is not None}
    return lambda name: capture.value(held[name]) if name in held else None


class Trials:
    """Runs of the candidate under one plan after another, held against the reference.

    Tensors of the reference that say nothing by themselves, because they are constant or equal to others (as in a model that was
    just initialised), are moved by noise on both sides for as long as the trials last: else a wrong place for them would not show.
    """

    def __init__(self, context: Context, plan: Plan) -> None:
        self.context = context
        self.moved = told_apart(_recorded(context), plan.sources)
        self._fetch_own = fetching(_recorded(context))
        self._loaded: dict[str, object] = {}
        self._method: Method | None = None
        self._busy = 0.0
        self._began = time.process_time()
        self._truth: Capture | None = None
        self._lowered: bool | None = None
        self._made: list[str] | None = None

    @classmethod
    @contextmanager
    def under_way(cls, context: Context, plan: Plan) -> Iterator[Trials]:
        """Trials, after which the reference has its own weights again."""
        trials = cls(context, plan)
        if trials.moved:
            cls._load(context.reference, trials._moved_state())
        try:
            yield trials
        finally:
            if trials.moved:
                cls._load(context.reference, _recorded(context))

    def _moved_state(self) -> Capture:
        folder = self.context.reference.folder / "moved"
        clear(folder)
        with CaptureWriter(folder, Manifest(side="reference", stage="weights")) as writer:
            for record in _recorded(self.context).records:
                if record.name in self.moved:
                    writer.add(record.name, self.moved[record.name], role=record.role)
        return Capture.open(folder)

    def error(self, plan: Plan) -> float:
        """How far the outputs are from the reference's under a plan, in units of what is allowed.

        Infinite where a side fails.
        """
        try:
            self._fill(plan)
            return self._distance()
        except WorkerFailed:
            self._loaded = {}  # a worker that is started again has its own weights
            return math.inf

    def _fill(self, plan: Plan) -> None:
        """Load what a plan gives the candidate otherwise than the one before."""
        fillings = plan.fillings()
        changed = {name for name, filling in fillings.items() if self._loaded.get(name) != filling}
        if changed:
            loaded = self._load(self.context.candidate, write(self.context, plan, self._value, changed))
            self._busy += loaded.manifest.resources.get("busy_seconds", 0.0)
            self._loaded.update(fillings)

    def prove(self, plan: Plan, seconds: float = SECONDS) -> Proof:
        """The plan or its alternative that makes outputs equal, within runs and time."""
        return mapping.prove(
            plan,
            self.error,
            limit=RUNS,
            seconds=seconds,
            least=LEAST,
            further=self._by_use,
            clock=self._clock,
            agreement=self._agreement if self.context.observed else None,
        )

    @property
    def seconds_left(self) -> float:
        """What these trials have left of the time that searches may take."""
        return max(0.0, SECONDS - (self._clock() - self._began))

    def _clock(self) -> float:
        """Seconds of processor time that went into the trials.

        What others compute meanwhile does not count.
        """
        return time.process_time() + self._busy

    def _by_use(self, plan: Plan) -> list[Choice]:
        """What the operations of both runs say of the tensors that names leave open.

        Nothing where a side cannot be watched.
        """
        if not mapping.open_moves(plan):
            return []
        found = uses.recorded(self.context)
        return [] if found is None else mapping.by_use(plan, *found)

    def _agreement(self, plan: Plan) -> int | None:
        """How many values of the candidate's watched pass under a plan the reference has too.

        None where a side cannot be watched, or does not run in float64.
        """
        try:
            if self._made is None:
                self._made = uses.computed(self.context.reference, self.context.inputs)
            self._fill(plan)
            found = uses.computed(self.context.candidate, self.context.inputs)
        except WorkerFailed:
            self._loaded = {}
            return None
        if self._made is None or found is None:
            return None
        known: Values[str] = Values(SAME)
        for digest in self._made:
            known.add(digest, digest)
        return sum(digest in known for digest in found)

    def agrees_replayed(self, plan: Plan) -> bool:
        """Whether outputs are equal under a plan with the reference's draws in eval mode."""
        if math.isinf(self.error(plan)):
            return False
        self.context.plan = plan
        try:
            replay = pipeline.replayed(self.context, "eval", uuid4().hex)
        except WorkerFailed:
            return False
        if replay is None:
            return False
        return not (replay.wrong or replay.findings or any(d.confirmed for d in replay.divergences))

    def _value(self, name: str) -> Typed | None:
        return self.moved.get(name) or self._fetch_own(name)

    @staticmethod
    def _load(recorder: Recorder, state: Capture) -> Capture:
        return recorder.record("trial", Load(record=False, attempt=uuid4().hex), {"state": state})

    def _distance(self) -> float:
        if self.context.inputs is None:
            return math.inf
        values = {"inputs": self.context.inputs}
        if self._truth is None:
            order = Forward([DOUBLE, NATIVE], attempt=uuid4().hex)
            self._truth = self.context.reference.record("truth", order, values) if self.moved else reference_alone(self.context)
        runs = [DOUBLE, NATIVE] if self._method is None else [self._method.candidate_run]
        candidate = self.context.candidate.record("proof", Forward(runs, attempt=uuid4().hex), values)
        self._busy += candidate.manifest.resources.get("busy_seconds", 0.0)
        if self._method is None:
            method, _ = choose(self._truth, candidate)
            if method.name == PERTURBATION.name:  # the least noise, generously: only the best is sought
                method = replace(PERTURBATION, noise_runs=("no such run",), limit=1000.0)
            self._method = method
        errors = _errors(self._truth, candidate, self._method)
        greatest = max(errors, default=math.inf)
        if self._method is FLOAT64 and 1.0 < greatest <= lower_precision.MOST and self._computes_lower():
            self._method = replace(PARTLY, noise_runs=(NATIVE,))
            errors = _errors(self._truth, candidate, self._method)
        return together(errors)

    def _computes_lower(self) -> bool:
        """Whether the candidate's float64 run computes partly in less; asked once."""
        if self._lowered is None:
            values = {} if self.context.inputs is None else {"inputs": self.context.inputs}
            try:
                found = Lowered.answer(self.context.candidate.record("lowered-forward", Lowered("forward"), values)).lowered
            except WorkerFailed:
                found = []
            self._lowered = bool(found)
        return self._lowered


def _errors(reference: Capture, candidate: Capture, method: Method) -> list[float]:
    """The errors of the outputs that both sides have, in units of what is allowed.

    Empty where none go together.

    Whether a side gives more than the other is for the stage that judges outputs: here, equal outputs in the same order are enough.
    """
    ours, theirs = final(reference, name="output", run=method.reference_run), final(candidate, name="output", run=method.candidate_run)
    points = points_of(ours, theirs)
    if any(first is None or second is None for first, second, _ in points):
        points = [(first, second, "order") for first, second in zip(_distinct(reference, ours), _distinct(candidate, theirs), strict=False)]
    pairs = paired(reference, candidate, points, method, Tolerance())
    return [math.inf if p.ratio is None and p.verdict == DIVERGED else (p.ratio or 0.0) / method.limit for p in pairs]


def together(errors: Sequence[float]) -> float:
    """One number for the errors of several outputs: at most one where all are allowed.

    Else their geometric mean, in which an allowed one counts as one: where a fault of the model has part of the outputs wrong whatever
    the assignment, the right one is told by the others. Infinite where all are, or there is none.

    >>> together([0.5, 0.25]), round(together([0.5, 1e6, 1e6, 1.0]), 6), together([]), together([float("inf")])
    (0.5, 1000.0, inf, inf)
    """
    greatest = max(errors, default=math.inf)
    if greatest <= 1.0 or all(map(math.isinf, errors)):
        return greatest
    return math.exp(sum(math.log(min(max(each, 1.0), WORST)) for each in errors) / len(errors))


def _distinct(capture: Capture, records: Sequence[Record]) -> list[Record]:
    """Records in order, those of equal values once."""
    return list(
        {
            r.digest or (r.shape, capture.value(r).array.tobytes() if r.location is not None else r.text): r for r in reversed(records)
        }.values()
    )[::-1]


def told_apart(weights: Capture, records: Iterable[Record], *, single: bool = False) -> dict[str, Typed]:
    """Other values for tensors that are constant or equal to one before them.

    Each can then be told from all others.

    Args:
        weights: the reference's state.
        records: those of its tensors that have a place in the candidate.
        single: also tensors of one element that are 0 or 1, which change nothing that they are added to or multiplied with.
    """
    random = np.random.default_rng(0)
    seen: set[bytes] = set()
    found: dict[str, Typed] = {}
    for record in records:
        if record.location is None or record.dtype not in MOVABLE:
            continue
        value = weights.value(record)
        array = np.ascontiguousarray(value.array)
        digest = hashlib.blake2b(array.data if array.size else b"", digest_size=16).digest() + repr(array.shape).encode()
        constant = array.size > 1 and array.min() == array.max()
        if digest in seen or constant or (single and _is_neutral(value)):
            wide = widen(value)
            spread = float(np.std(wide)) or 1.0
            found[record.name] = narrow(wide + MOVED * spread * np.abs(random.standard_normal(wide.shape)), value.dtype)
        seen.add(digest)
    return found


def _is_neutral(value: Typed) -> bool:
    """Whether a value is a single 0 or 1."""
    return value.array.size == 1 and float(widen(value).ravel()[0]) in (0.0, 1.0)
