"""The user's own training step, run as it is on both sides and judged by what it does to the model."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.comparison import compare_pair
from paralign.context import PERTURBED, spent
from paralign.errors import WorkerFailed
from paralign.locate.optimizer.setting_lines import code_at
from paralign.locate.provenance import own_steps, tracing_back
from paralign.model import (
    DIVERGED,
    NOT_TESTED,
    UNDERPOWERED,
    Coverage,
    Divergence,
    Finding,
    Point,
    SourceLine,
    StageResult,
    Tolerance,
    Unjudged,
    overall,
)
from paralign.stages.backward import made_up, own_step_draws
from paralign.stages.common.judging import AGAINST, Noises, choose, settle
from paralign.stages.steps import running
from paralign.worker.protocol import Feed, OwnStepped, OwnSteps
from paralign.worker.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.model import Pair, Record
    from paralign.stages.common.judging import Method

#: as the task calls them
RESEEDED = "reseeded"

#: gradients are a multiple of others if what is left is below this share of them
MULTIPLE = 1e-5

#: native steps of a side may be this much less exact than the other's: those in lower precision are a thousand times
COARSER = 100.0

#: characters that are shown of what a side said of its inputs
SAID = 120

#: times the noise up to which changes made of equal gradients are held to be rounding that the update enlarges
SLIGHT = 3.0

#: and the share of a change that may be so: Adam makes much of gradients near zero
APART = 1e-2

#: how much later steps may enlarge what the first one has of rounding
LATER = 4.0


@dataclass
class Steps:
    """Both sides' recorded steps on the ``given`` batches.

    ``alone`` are the parts of what they return that one side alone has, ``refused`` is what a side said of the check's inputs.
    """

    context: Context
    reference: Capture
    candidate: Capture
    given: dict[str, Capture]
    alone: set[str] = field(default_factory=set)
    refused: WorkerFailed | None = None

    @property
    def answers(self) -> tuple[OwnStepped, OwnStepped]:
        """What both workers said."""
        return OwnSteps.answer(self.reference), OwnSteps.answer(self.candidate)

    def values(self, role: str, runs: tuple[str, str], step: int, call: int = 0) -> list[tuple[Record, Record | None, Typed, Typed | None]]:
        """Records of a role under the reference's names, the candidate's brought to the reference's layout."""
        if self.context.plan is None:
            return []
        plan = self.context.plan
        sides = [
            {r.name: r for r in c.select(role=role, run=run, step=step) if r.call == call and r.location is not None}
            for c, run in zip((self.reference, self.candidate), runs, strict=True)
        ]
        found = []
        for source in plan.sources:
            first = sides[0].get(source.name)
            if first is None or source.attrs.get("shared"):
                continue
            moves = [m.candidate.name for m in plan.moves_of(source.name) if m.candidate is not None]
            second = next((sides[1][name] for name in moves if name in sides[1]), None)
            whole = plan.restore(source.name, lambda name: self.candidate.value(sides[1][name]) if name in sides[1] else None)
            found.append((first, second, self.reference.value(first), whole))
        return found

    def pairs(self, method: Method, step: int) -> list[Pair]:
        """What a step returned, and what it and those before changed, measured and judged."""
        runs = method.reference_run, method.candidate_run
        noises, pairs = Noises(self.reference, method), []
        ends = [
            {r.leaf: r for r in c.select(name="result", run=run, step=step)}
            for c, run in zip((self.reference, self.candidate), runs, strict=True)
        ]
        for leaf in dict.fromkeys([*ends[0], *ends[1]]):
            one, other = ends[0].get(leaf), ends[1].get(leaf)
            if one is None or other is None:
                self.alone.add(leaf)
                continue
            held = [c.value(r) if r.location is not None else None for c, r in ((self.reference, one), (self.candidate, other))]
            pairs.append(compare_pair(f"own result_{step}{'.' + leaf if leaf else ''}", one, other, held[0], held[1]))
        for role, word in (("parameter", "change"), ("buffer", "buffer")):
            for first, second, here, there in self.values(role, runs, step):
                pairs.append(compare_pair(f"own {word}_{step} {first.name}", first, second, here, there, how="weights"))
        framework = self.context.framework("reference")
        for pair in pairs:
            pair.noise = noises.of(pair.reference) if pair.reference is not None else None
            share = running.kept(pair.reference, framework)
            if pair.noise is not None and share is not None:
                pair.noise = max(pair.noise, running.stored(share), key=lambda n: n.value)
        return pairs


def weigh(context: Context, result: StageResult) -> None:
    """Take back what was said of the optimizers alone where both sides' own steps make up for it; nothing else is added."""
    both = all(context.has(side, "train_step") for side in ("reference", "candidate"))
    if not both or not made_up.may_be(context, result) or context.inputs is None or context.plan is None:
        return
    try:
        steps = _record(context)
    except WorkerFailed as failure:
        result.notes.append(f"train_step could not be asked whether it makes up for it: {failure.what}")
        return
    if steps is None:
        return
    part = StageResult("backward")
    method, _ = choose(steps.reference, steps.candidate)
    judged = _judge(context, part, steps, method)
    spent(result, steps.reference, steps.candidate)
    if judged is not None:
        made_up.excuse(context, result, part, _first_gradients(*judged))


def judge(context: Context, result: StageResult) -> StageResult:
    """Add the steps of both sides' ``train_step`` to the result of the stage, which without a loss is theirs alone."""
    having = [side for side in ("reference", "candidate") if context.has(side, "train_step")]
    if len(having) < 2:  # noqa: PLR2004 - both sides
        result.notes += [f"only the {having[0]} has train_step(model, optimizer, batch): it was not run"] if having else []
        return result
    if context.lacking("backward", "build_model", "build_optimizer") or context.inputs is None or context.plan is None:
        result.notes.append("train_step was not run: it needs build_model(), build_optimizer(model), weights that map, and a batch")
        return result
    steps = _record(context)
    if steps is None:
        result.notes.append("train_step was not run: there are no labels for its batch")
        return result
    part = StageResult("backward")
    method, notes = choose(steps.reference, steps.candidate)
    part.notes += notes
    judged = _judge(context, part, steps, method)
    if judged is not None:
        made_up.excuse(context, result, part, _first_gradients(*judged))
    return _joined(result, part, steps)


def _record(context: Context) -> Steps | None:
    """Both sides' steps on the check's inputs; where a side cannot take those, on the first batches of the reference's own loader.

    Raises:
        WorkerFailed: what a side said of the check's inputs, where there are no such batches; of these, where it cannot take them either.
    """
    if context.inputs is None or context.labels is None:
        return None
    try:
        return _recorded(context, {"inputs": context.inputs, "labels": context.labels})
    except WorkerFailed as failed:
        if not context.has("reference", "build_dataloader"):
            raise
        try:
            fed = context.reference.record("own steps feed", Feed(context.settings.pace.split, context.settings.steps))
        except WorkerFailed:
            raise failed from None  # the loader says nothing of the step
        return replace(_recorded(context, {"inputs": fed, "labels": fed}), refused=failed)


def _recorded(context: Context, values: dict[str, Capture]) -> Steps:
    runs, orders = [DOUBLE, NATIVE, RESEEDED], _orders(context)
    ours, theirs = replace(orders[0], runs=[*runs, *PERTURBED]), replace(orders[1], runs=runs)
    reference, candidate = context.record_both("own steps", ours, values, theirs)
    return Steps(context, reference, candidate, values)


def _orders(context: Context) -> tuple[OwnSteps, OwnSteps]:
    """The steps of the reference and of the candidate in float64: how many, and how often their schedules go on."""
    ours, theirs = (OwnSteps([DOUBLE], context.settings.steps, context.settings.pace.steps_between(side)) for side in (0, 1))
    return ours, theirs


def _judge(context: Context, part: StageResult, steps: Steps, method: Method) -> tuple[Steps, Method] | None:
    """What the steps come to; those that are random with the reference's draws on both sides.

    Returns:
        The steps that decided, and how they were judged; None where none were compared.
    """
    random = [side for side, c in (("reference", steps.reference), ("candidate", steps.candidate)) if _is_random(c)]
    if random:
        drawn = _judge_drawn(context, part, steps, " and the ".join(random))
        return None if drawn is None else (drawn, own_step_draws.METHOD)
    _judge_steps(context, part, steps, method)
    if part.verdict == DIVERGED:
        _explain(part, steps, method)
        _trace(part, steps)
    elif method.candidate_run == DOUBLE:
        _judge_native(part, steps)
    return steps, method


def _first_gradients(steps: Steps, method: Method) -> list[tuple[Any, Any]]:
    """The gradients that reach the first update, of both sides, a pair for each parameter that has some on both."""
    found = steps.values("gradient", (method.reference_run, method.candidate_run), 0)
    return [(here.array, there.array) for _, _, here, there in found if there is not None and here.array.size]


def _judge_drawn(context: Context, part: StageResult, steps: Steps, random: str) -> Steps | None:
    """Steps that are random: judged with the reference's draws on both sides, where every draw has a counterpart."""
    found = own_step_draws.record(context, _orders(context), steps.given)
    if isinstance(found, str):
        part.verdict = UNDERPOWERED
        part.warnings.append(
            f"train_step of the {random} draws random numbers, and its steps were not compared: {found} "
            "(draw them before, or make what is random a layer that can be switched off)"
        )
        return None
    tried = []
    for reference, candidate in found:
        attempt = StageResult("backward")
        drawn = replace(steps, reference=reference, candidate=candidate, alone=set())
        _judge_steps(context, attempt, drawn, own_step_draws.METHOD)
        tried.append((attempt, drawn))
        if attempt.verdict != DIVERGED:
            break
    attempt, drawn = tried[-1] if tried[-1][0].verdict != DIVERGED else tried[0]
    part.pairs, part.coverage, part.verdict = attempt.pairs, attempt.coverage, attempt.verdict
    part.notes += [*attempt.notes, f"train_step of the {random} draws random numbers: the candidate's drew what the reference's drew"]
    if part.verdict == DIVERGED:
        _explain(part, drawn, own_step_draws.METHOD)
        _trace(part, drawn)
    return drawn


def _judge_steps(context: Context, part: StageResult, steps: Steps, method: Method) -> None:
    """The pairs of the first and the last step, and the verdict."""
    last, tolerance = context.settings.steps - 1, context.settings.tolerance_of("backward")
    slack = made_up.slack(context, _first_gradients(steps, method))
    for step in dict.fromkeys((0, last)):
        pairs = steps.pairs(method, step)
        for pair in pairs if slack is not None else ():
            pair.noise = max((n for n in (pair.noise, slack) if n is not None), key=lambda n: n.value)
        settle(pairs, replace(method, limit=method.limit * (LATER if step else 1.0)), tolerance)
        _excuse_variances(context, pairs)
        if method.candidate_run == DOUBLE:
            _excuse_cancelled(steps, method, step, pairs)
        part.pairs += pairs
    if method.candidate_run == DOUBLE and tolerance.ratio is None and slack is None:
        _excuse_slight(part, steps, method)
    if steps.alone:
        told = ", ".join(sorted(leaf or "a value" for leaf in steps.alone))
        part.notes.append(f"train_step returns {told} on one side only: not compared")
    if steps.refused is not None:
        side, said = steps.refused.side or "other side", f"{steps.refused.type}: {steps.refused.message}".split("\n")[0]
        part.notes.append(
            f"train_step of the {side} cannot take the check's inputs ({said[:SAID]}): both were given the first batches of the "
            "reference's data loader"
        )
    part.coverage.append(Coverage("own steps", context.settings.steps))
    part.verdict = overall([p.verdict for p in part.pairs if p.judged])


def _excuse_slight(part: StageResult, steps: Steps, method: Method) -> None:
    """Leave out changes that are hardly more apart than the reference's own noise, where equal gradients reached the update.

    A kernel that computes a constant in float32 in a float64 pass too makes an error of that size, and an update may enlarge it.
    """
    wrong = [p for p in part.pairs if p.wrong]
    slight = [p for p in wrong if p.reference is not None and p.reference.role == "parameter" and _is_slight(p)]
    first = _ratio(steps, (method.reference_run, method.candidate_run), 0)
    if not wrong or len(slight) < len(wrong) or first is None or not first.alike:
        return
    for pair in wrong:
        pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)
    greatest = max(pair.ratio or 0.0 for pair in wrong)
    part.notes.append(
        f"changes of {len(wrong)} parameters by train_step are up to {greatest:.3g} times as far apart as the reference's rounding moves "
        "them; the gradients that reach the first update are equal: this is held to be rounding, and a fault as small would not be seen"
    )


def _is_slight(pair: Pair) -> bool:
    """Whether two changes are hardly more apart than rounding moves them, and not by much of themselves."""
    return pair.ratio is not None and pair.error is not None and pair.ratio <= SLIGHT and pair.error <= APART


def _excuse_variances(context: Context, pairs: list[Pair]) -> None:
    """PyTorch's running variance is unbiased, Paddle's is not: how often a step updates it, nobody knows, so it is not judged."""
    if context.settings.strict or not running.kept_otherwise(context.framework("reference"), context.framework("candidate")):
        return
    for pair in pairs:
        if pair.verdict == DIVERGED and pair.reference is not None and pair.reference.attrs.get("leaf") in running.VARIANCES:
            pair.leave_out(Unjudged.BIASED, running.BIASED)


def _excuse_cancelled(steps: Steps, method: Method, step: int, pairs: list[Pair]) -> None:
    """Leave out what is zero but for rounding in float64: changes and buffers, and what an update makes of gradients that are."""
    runs = method.reference_run, method.candidate_run
    given = steps.values("gradient", runs, step)
    gradients = {record.name: value for record, _, value, _ in given}
    others = {record.name: _length([value]) for record, _, _, value in given if value is not None}
    least = running.CANCELLED * _length(gradients.values())
    vanishing = {name for name, value in gradients.items() if 0.0 < max(_length([value]), others.get(name, 0.0)) <= least}
    for role in ("parameter", "buffer"):
        own = [p for p in pairs if p.reference is not None and p.stats is not None and p.reference.role == role]
        total = math.sqrt(sum(p.stats.rms_reference**2 * p.stats.count for p in own if p.stats is not None))
        for pair in own:
            if pair.verdict not in (DIVERGED, UNDERPOWERED) or pair.stats is None or pair.reference is None:
                continue
            greatest = max(pair.stats.rms_reference, pair.stats.rms_candidate) * math.sqrt(pair.stats.count)
            if greatest <= running.CANCELLED * total or pair.reference.name in vanishing:
                pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)


def _length(values: Iterable[Typed]) -> float:
    """The L2 norm of several tensors together."""
    return math.sqrt(sum(float(np.sum(np.square(value.array, dtype=np.float64))) for value in values))


def _is_random(capture: Capture) -> bool:
    """Whether the native steps differ under another seed."""
    results = [r for r in capture.records if r.role in ("scalar", "parameter")]
    native, reseeded = ({(r.name, r.leaf, r.step): r for r in results if r.run == run} for run in (NATIVE, RESEEDED))
    for key, record in native.items():
        if record.location is None or key not in reseeded:
            continue
        one, other = capture.array(record), capture.array(reseeded[key])
        if not np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            return True
    return False


def _judge_native(part: StageResult, steps: Steps) -> None:
    """Steps as they are, in mixed precision where ``train_step`` has it: their noise is the reference's own distance from float64."""
    pairs = steps.pairs(AGAINST, 0)
    settle(pairs, replace(AGAINST, limit=COARSER), Tolerance())
    _excuse_variances(steps.context, pairs)
    wrong = [p for p in pairs if p.verdict == DIVERGED and p.noise is not None and p.noise.value > 0]
    for pair in wrong:
        pair.key = f"{pair.key} (native)"
    own = _inexact(steps.reference, steps), _inexact(steps.candidate, steps)
    if wrong:
        part.pairs += wrong
        part.verdict = DIVERGED
        part.findings.append(
            Finding(
                "own_step/precision",
                "in float64 the steps agree; as they are, the candidate's are less exact",
                "use autocast on both sides alike",
            )
        )
        part.divergence = _at(steps, wrong[0], "autocast", "auto_cast")
    elif own[1] and own[0] > COARSER * own[1]:
        part.warnings.append(
            f"the reference's steps are less exact ({own[0]:.1g}) than the candidate's ({own[1]:.1g}): mixed precision on one side only?"
        )


def _inexact(capture: Capture, steps: Steps) -> float:
    """The median distance of a side's native changes from its float64 ones."""
    far = []
    for first in capture.select(role="parameter", run=DOUBLE, step=0):
        other = next(iter(capture.select(name=first.name, role="parameter", run=NATIVE, step=0)), None)
        if other is not None and first.location is not None:
            one, two = capture.array(first), capture.array(other)
            size = float(np.linalg.norm(one))
            far += [float(np.linalg.norm(one - two)) / size] if size else []
    return float(np.median(far)) if far and steps.context.plan is not None else 0.0


# -- explaining --------------------------------------------------------------------------------------------------------------------


def _explain(part: StageResult, steps: Steps, method: Method) -> None:
    """What the steps differ in: the number of updates, or the gradients that reach them; with the line."""
    wrong = part.wrong[0]
    counts = [list(a.updates.get(run, ())) for a, run in zip(steps.answers, (method.reference_run, method.candidate_run), strict=True)]
    if counts[0] != counts[1]:
        step = next(n for n, (one, other) in enumerate(zip(*counts, strict=True)) if one != other)
        cause = f"the candidate's train_step makes {counts[1][step]} updates in step {step}, the reference's {counts[0][step]}"
        part.findings.append(Finding("own_step/updates", cause, "call optimizer.step() as often, and after as many batches", proven=True))
        part.divergence = _at(steps, wrong, ".step(", "if ")
        return
    runs = method.reference_run, method.candidate_run
    first = _ratio(steps, runs, 0)
    if first is None:
        part.divergence = _at(steps, wrong, ".step(")
        return
    if first.alike:
        _explain_later(part, steps, runs, wrong)
        return
    if first.factor is not None:
        clips = steps.context.clipping is not None  # one side's optimizer, by itself, so that other gradients may well reach it
        cause = f"the gradients that reach the first update are {first.factor:.6g} times the reference's"
        known = "a loss that is not divided by the number of accumulated batches, a scale that is not taken back, or clipping"
        part.findings.append(
            Finding("own_step/scale", cause, f"look for {known}", not clips, error_before=first.error, error_after=first.left)
        )
        part.divergence = _at(steps, wrong, "clip" if first.factor < 1 else "backward(", "clip", "backward(")
        return
    part.findings.append(
        Finding(
            "own_step/gradients",
            "the gradients that reach the first update differ",
            "compare the stages forward, loss and backward; then what is done to gradients before the update",
        )
    )
    part.divergence = _at(steps, wrong, "clip", "backward(")


def _trace(part: StageResult, steps: Steps) -> None:
    """Name the expression of the candidate's own that made something wrong, where one is found."""
    wrong = [p for p in part.wrong if p.reference is not None and p.candidate is not None and p.reference.role in ("parameter", "buffer")]
    names = [p.reference.name for p in wrong if p.reference is not None], [p.candidate.name for p in wrong if p.candidate is not None]
    own_steps.follow(steps.context, part.divergence, steps.given, names, steps.context.settings.steps)
    if part.divergence is not None and part.divergence.rule == tracing_back.RULE:
        cause = "an expression of the candidate's training step makes something else than the reference's of the same values"
        found = Finding("own_step/expression", cause, "compare the two lines: the values that go in are equal")
        part.findings = [found, *(f for f in part.findings if f.proven)]


@dataclass
class _Ratio:
    """How gradients of one step compare: ``alike``, or ``factor`` times the reference's but for ``left``; ``error`` as they are."""

    alike: bool
    factor: float | None
    error: float
    left: float


def _ratio(steps: Steps, runs: tuple[str, str], step: int) -> _Ratio | None:
    both = [
        (a.array.astype(np.float64).ravel(), b.array.astype(np.float64).ravel())
        for _, _, a, b in steps.values("gradient", runs, step)
        if b is not None and a.array.size
    ]
    if not both:
        return None
    ones, others = (np.concatenate([pair[side] for pair in both]) for side in (0, 1))
    size = float(ones @ ones)
    if not size:
        return None
    factor = float(ones @ others) / size
    error, left = (float(np.linalg.norm(others - f * ones)) / size**0.5 for f in (1.0, factor))
    allowed = MULTIPLE if DOUBLE in runs else 100 * MULTIPLE
    return _Ratio(error <= allowed, factor if factor and left <= allowed * abs(factor) else None, error, left)


def _explain_later(part: StageResult, steps: Steps, runs: tuple[str, str], wrong: Pair) -> None:
    """Where the gradients of the first update agree: the update itself, or gradients that were not cleared."""
    carried = [
        (here.array - old.array, there.array - before.array, old.array)
        for (_, _, here, there), (_, _, old, before) in zip(
            steps.values("gradient", runs, 1), steps.values("gradient", runs, 0), strict=False
        )
        if there is not None and before is not None and here.array.shape == old.array.shape
    ]
    uncleared = bool(carried) and _ratio_of([a + c for a, _, c in carried], [b for _, b, _ in carried]) <= 100 * MULTIPLE
    if uncleared:
        cause = "from the second step on the candidate's gradients contain those of the steps before: they are not cleared"
        part.findings.append(
            Finding("own_step/uncleared", cause, "call optimizer.clear_grad() (zero_grad()) after every update", proven=True)
        )
        part.divergence = _at(steps, wrong, "clear_grad", "zero_grad", ".step(")
        return
    part.findings.append(
        Finding(
            "own_step/update",
            "the gradients that reach the first update are equal, what it makes of them is not",
            "run the stage optimizer: it says which setting differs",
        )
    )
    part.divergence = _at(steps, wrong, optimizer=True)


def _ratio_of(ones: list[Any], others: list[Any]) -> float:
    one, other = (np.concatenate([np.asarray(v, np.float64).ravel() for v in side]) for side in (ones, others))
    size = float(np.linalg.norm(one))
    return float(np.linalg.norm(one - other)) / size if size else float(np.linalg.norm(other))


def _at(steps: Steps, pair: Pair, *words: str, optimizer: bool = False) -> Divergence:
    """Both ends of a difference: the first line of each ``train_step`` with one of some words, else where the update is called."""
    ends = []
    for answer in steps.answers:
        line = answer.optimizer if optimizer else _line_with(answer.defined, words) or answer.line or answer.defined
        ends.append(Point("train_step", "", line, code_at(line)))
    return Divergence(ends[0], ends[1], pair)


def _line_with(defined: str | None, words: tuple[str, ...]) -> str | None:
    """The line of the function defined at a place that has the first of some words that occurs in it."""
    place = SourceLine.of(defined)
    if place is None:
        return None
    try:
        text = Path(place.file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [f for f in functions if f.lineno <= place.line <= (f.end_lineno or f.lineno)]
    if not around:
        return None
    inner = max(around, key=lambda f: f.lineno)
    lines = text.splitlines()[inner.lineno : inner.end_lineno]
    for word in words:
        for offset, line in enumerate(lines, inner.lineno + 1):
            if word in line:
                return str(place.at(offset))
    return None


def _joined(result: StageResult, part: StageResult, steps: Steps) -> StageResult:
    """The stage's result with that of the own steps; what the own step does comes first where it alone differs."""
    spent(part, steps.reference, steps.candidate)
    alone = result.verdict == NOT_TESTED
    result.pairs += part.pairs
    result.findings += part.findings
    result.warnings += part.warnings
    result.notes = [*([] if alone else result.notes), *[n for n in part.notes if n not in result.notes]]
    if alone:
        result.notes.append("there is no loss(outputs, labels): train_step alone was compared")
    result.coverage += part.coverage
    for side, seconds in part.seconds.items():
        result.seconds[side] = result.seconds.get(side, 0.0) + seconds
    result.verdict = part.verdict if alone else overall([result.verdict, part.verdict])
    result.method = result.method or "train_step, as it is"
    if result.divergence is None and result.verdict == DIVERGED:
        result.divergence = part.divergence
    return result
