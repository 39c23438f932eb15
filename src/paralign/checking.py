"""One check under way: both sides described, inputs given, the stages one after the other."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from paralign.adapters.base import TF32_OVERRIDE
from paralign.context import Context
from paralign.errors import UsageError, WorkerFailed
from paralign.locate import other_axis
from paralign.locate.provenance import tracing_back
from paralign.model import ALIGNED, DIVERGED, ERROR, NOT_TESTED, UNDERPOWERED, CheckResult, StageResult, Unjudged, overall
from paralign.port.scan import hints
from paralign.registry import BY_NAME
from paralign.run import inputs as tensors
from paralign.run.process import Process, environment, write_own
from paralign.run.recorder import Recorder, both, interpreter, own_code
from paralign.run.remedies import remedy
from paralign.run.standing_process import Child, Standing
from paralign.stages import run as run_stage
from paralign.stages.common import own_failures
from paralign.stages.common.precision import NATIVE_KEY
from paralign.stages.metric.evaluating import EVALUATION
from paralign.worker.protocol import Batch, Describe, Description, Given
from paralign.worker.protocol.wire import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.model import Pair
    from paralign.run.project import Project, SideSettings

#: said of each stage that diverges under weights whose places nothing has proven
GUESSED = "the places of {} of {} weights are guessed (see `weights`): what differs here may only follow from a wrong place"

#: said of each stage that would diverge while names leave weights without a place
UNTOLD = (
    "{} weights have no counterpart by their names, and tensors of their sizes are left over on the other side: what differs here "
    "may only follow from them (set `rules` under [weights] to say their places)"
)

#: said where the expressions behind a wrong value could not be followed, and characters of the reason that are shown
UNTRACED = "where wrong values come from was not followed through the code"
SHOWN = 200

#: said of gradients at the outputs
WITHOUT_EFFECT = "the gradients at the outputs differ, and those of all parameters are equal: the model's outputs cannot move that way"

#: said once where the stages that are asked for run on weights that are not all the reference's
UNCARRIED = "not all weights could be carried over: see `paralign check weights`"


@contextmanager
def sides(project: Project, folder: Path, *, fresh: bool, lock: Path | None = None) -> Iterator[Context]:
    """Both sides of a project, ready to record into a folder.

    Their workers end when this is left.
    """
    with ExitStack() as stack:
        reference = recorder(project, "reference", project.reference, folder, reuse=not fresh, lock=lock)
        candidate = recorder(project, "candidate", project.candidate, folder, reuse=False, lock=lock)
        for each in (reference, candidate):
            stack.callback(each.close)
        yield Context(reference, candidate, project.settings)
        for each in (reference, candidate):
            each.dismiss()  # both frameworks take their time to end: at once


def recorder(
    project: Project,
    name: str,
    side: SideSettings,
    folder: Path,
    *,
    reuse: bool,
    lock: Path | None = None,
    standing: Standing | None = None,
) -> Recorder:
    """The recorder of one side of a project, into a folder.

    Args:
        project: whose side.
        name: ``reference`` or ``candidate``.
        side: its settings.
        folder: where captures and logs go.
        reuse: take captures that nothing has changed under.
        lock: as of :class:`Process`.
        standing: a process that serves it by a child.
    """
    write_own(folder / "workers" / f"{name}.log", "")
    identity: dict[str, Any] = {
        "module": str(side.module),
        "root": str(side.root),
        "python": side.python,
        "framework": side.framework,
        "device": side.device,
        "env": side.env,
        "folder": str(project.folder),
        "seed": project.settings.seed,
    }
    if side.unit or side.checkpoint is not None:
        identity.update(unit=side.unit, blocks=side.blocks, checkpoint=str(side.checkpoint))
    variables = None
    if name == "reference":
        found = interpreter(side.python, environment(side))
        identity.update(installed=found.installed, paralign=own_code())
        variables = found.variables

    def start() -> Process:
        ignore = [str(folder / "captures"), str(folder / "workers")]
        settings = project.settings
        made = Process if standing is None else partial(Child, standing)
        return made(name, side, folder / "workers", project.folder, seed=settings.seed, timeout=project.timeout, ignore=ignore, lock=lock)

    return Recorder(name, start, folder / "captures" / name, identity, reuse=reuse, variables=variables)


def given_tensors(project: Project, context: Context, folder: Path) -> tuple[Capture | None, Capture | None]:
    """Inputs and labels: from the project file, from functions, or a first batch.

    Functions are the reference's, and so is the data loader.
    """
    found: dict[str, Capture] = {}
    seeds = {"inputs": project.settings.seed, "labels": project.settings.seed + 1000}
    for name, spec in (("inputs", project.inputs), ("labels", project.labels)):
        if isinstance(spec, dict) and "source" in spec:
            if spec["source"] != "dataloader":
                raise UsageError(
                    f"unknown source {spec['source']!r} of [{name}]", where=str(project.path), hint='the one source there is: "dataloader"'
                )
            found[name] = _batch(context)
        elif spec is not None:
            found[name] = tensors.save(folder / "captures" / name, name, tensors.make(spec, project.folder, f"[{name}]", seeds[name]))
        elif context.has("reference", name):
            found[name] = context.reference.record(name, Given(name))
    if context.has("reference", "build_dataloader"):
        if "inputs" not in found:
            found["inputs"] = _batch(context)
        if "labels" not in found and found["inputs"].manifest.stage == Batch.task:
            found["labels"] = found["inputs"]
    return found.get("inputs"), found.get("labels")


def _batch(context: Context) -> Capture:
    if not context.has("reference", "build_dataloader"):
        raise UsageError(
            "the inputs are to come from the data loader, but the reference has no build_dataloader(split)",
            hint="define it, or set [inputs] to a shape or a file",
        )
    return context.reference.record("batch", Batch(context.settings.split))


def run_stages(
    context: Context,
    names: list[str],
    progress: Callable[[str], None],
    inputs: Callable[[], tuple[Capture | None, Capture | None]],
    functions: dict[str, list[str]] | None,
) -> CheckResult:
    """Describe the sides, get the inputs, run the stages.

    A side that fails gives its stage the verdict ``error``.
    """
    result = CheckResult()
    context.stages = list(names)
    progress("starting both sides")
    try:
        describe(context, result, functions)
        progress("inputs")
        context.inputs, context.labels = inputs() if any(BY_NAME[n].needs_weights for n in names) else (None, None)
    except WorkerFailed as failure:
        result.stages = [failed(name, failure) for name in names]
        return result
    finally:
        context.note_used("")
    carried: StageResult | None = None
    for name in names:
        if BY_NAME[name].needs_weights and carried is None:
            progress("weights")
            carried = _attempt("weights", context)
        if name == "weights" and carried is not None:
            result.stages.append(carried)
        elif BY_NAME[name].needs_weights and carried is not None and carried.verdict == ERROR:
            result.stages.append(
                StageResult(name, NOT_TESTED, notes=["the weights could not be carried over"])
                if "weights" in names
                else StageResult(name, ERROR, failure=carried.failure)
            )
        else:
            progress(name)
            result.stages.append(_attempt(name, context))
        leave_out_known(result)
        leave_out_without_effect(result)
        if name == "loss" and "backward" not in names:
            ask_parameters(context, result)
        rest_on_nothing(result, context.unplaced)
        say_follows(result, carried, guessed=_guessed(context))
    other_axis.add(result)
    hints.add(result)
    return result


def leave_out_known(result: CheckResult) -> None:
    """Take points that ``forward`` has named out of a ``loss`` that diverged.

    Both sides were given equal outputs.
    """
    last = result.stages[-1]
    forward = next((stage for stage in result.stages if stage.name == "forward"), None)
    if last.name != "loss" or forward is None:
        return
    known = {d.candidate.source for d in forward.divergences if d.candidate is not None and d.candidate.source}
    own = [d for d in last.divergences if d.candidate is None or d.candidate.source not in known]
    if own and len(own) < len(last.divergences):
        last.notes.append(f"points of the model, told at forward, and left out here: {len(last.divergences) - len(own)}")
        last.divergences, last.divergence = own, own[0]


def leave_out_without_effect(result: CheckResult) -> None:
    """Take gradients without effect out of a ``loss`` that diverged by nothing else.

    ``backward`` shows that no parameter feels them: the gradients of its first step agree, whatever is made of them afterwards.

    A loss of probabilities that sum to one, or of outputs that are a softmax's, can be written in ways whose gradients differ only in a
    direction in which those outputs cannot move.
    """
    last = result.stages[-1]
    loss = next((stage for stage in result.stages if stage.name == "loss"), None)
    if last.name != "backward" or last.verdict not in (ALIGNED, DIVERGED) or loss is None or loss.verdict != DIVERGED or loss.findings:
        return
    wrong = [pair for pair in loss.pairs if pair.wrong]
    if any(pair.key.endswith(NATIVE_KEY) for pair in wrong) or any(p.granted is not None for p in last.pairs if p.judged):
        return  # `backward` says nothing of native gradients, and what the user grants shows nothing
    if not all(_is_gradient(pair) for pair in wrong) or any(d.confirmed for d in loss.divergences):
        return
    felt = [pair for pair in last.pairs if pair.judged and _is_first_gradient(pair)]
    if not wrong or not felt or any(pair.verdict != ALIGNED for pair in felt):
        return
    for pair in wrong:
        pair.leave_out(Unjudged.WITHOUT_EFFECT, WITHOUT_EFFECT)
    loss.notes.append(f"{', '.join(p.key for p in wrong)}: {WITHOUT_EFFECT} ({len(felt)} were compared, see `backward`)")
    loss.verdict = overall([pair.verdict for pair in loss.pairs if pair.judged])
    loss.divergence, loss.divergences = None, []


def ask_parameters(context: Context, result: CheckResult) -> None:
    """Whether a parameter feels what differs in a ``loss`` that diverged by gradients alone.

    For checks without ``backward``: its first step is run for it, and nothing of it is kept but what it says of the loss.
    """
    loss = result.stages[-1]
    wrong = [pair for pair in loss.pairs if pair.wrong]
    if loss.verdict != DIVERGED or loss.findings or not wrong or not all(map(_is_gradient, wrong)):
        return
    first_step = replace(
        context,
        settings=replace(context.settings, steps=1),
        artifacts=dict(context.artifacts),
        used=dict(context.used),
        replays=dict(context.replays),
        untested=list(context.untested),
    )
    leave_out_without_effect(CheckResult([loss, _attempt("backward", first_step)]))


def _is_gradient(pair: Pair) -> bool:
    return pair.reference is not None and pair.reference.role == "gradient"


def _is_first_gradient(pair: Pair) -> bool:
    """Whether a pair holds a gradient before any update."""
    return _is_gradient(pair) and pair.reference is not None and not pair.reference.step


#: what makes the sides' own evaluations differ where their metrics agree on the reference's outputs
_OF_EVALUATIONS = ("forward", "data")


def _is_evaluation_alone(stage: StageResult) -> bool:
    """Whether only the sides' own evaluations differ, and no metric of given outputs."""
    return any(finding.rule == EVALUATION for finding in stage.findings)


def rest_on_nothing(result: CheckResult, unplaced: int) -> None:
    """A diverged last stage is too weak a test where names leave weights without a place.

    Its lines and causes are those of a model with other weights.
    """
    last = result.stages[-1]
    rests = "weights" in BY_NAME[last.name].follows or _is_evaluation_alone(last)
    if not unplaced or last.verdict != DIVERGED or not rests:
        return
    last.verdict, last.divergence, last.divergences, last.findings = UNDERPOWERED, None, [], []
    last.doubt(UNTOLD.format(unplaced))


def _guessed(context: Context) -> tuple[int, int]:
    """How many weights are where order and use suggest, and how many have a place."""
    plan = context.plan
    return (len(plan.unsure), len(plan.sources)) if context.guessed and plan is not None else (0, 0)


def say_follows(result: CheckResult, carried: StageResult | None, *, guessed: tuple[int, int] = (0, 0)) -> None:
    """Say of a diverged last stage which earlier divergence it may have inherited.

    ``guessed``: how many weights are at places that nothing has proven, and of how many.
    """
    *before, last = result.stages
    wrong = [s.name for s in before if s.verdict == DIVERGED]
    hidden = carried is not None and carried.verdict == DIVERGED and "weights" not in {s.name for s in result.stages}
    if last.verdict == DIVERGED:
        inherits = [*BY_NAME[last.name].follows, *(_OF_EVALUATIONS if _is_evaluation_alone(last) else ())]
        last.follows = [name for name in inherits if name in wrong or (hidden and name == "weights")]
    if guessed[0] and last.verdict == DIVERGED and BY_NAME[last.name].needs_weights and last.name != "weights":
        if "weights" in {stage.name for stage in before}:
            last.warnings.insert(0, GUESSED.format(*guessed))  # the stage `weights` tells the doubt
        else:
            last.doubt(GUESSED.format(*guessed))
    if not hidden or not BY_NAME[last.name].needs_weights:
        return
    if not any(_speaks_of_weights(s) for s in result.stages):
        last.doubt(UNCARRIED)
    elif "weights" in last.follows:
        last.doubts.append(UNCARRIED)  # the warning is what it follows


def _speaks_of_weights(stage: StageResult) -> bool:
    return "weights" in stage.follows or UNCARRIED in stage.warnings


def describe(context: Context, result: CheckResult, functions: dict[str, list[str]] | None) -> None:
    """Ask both sides what they are.

    Versions and what differs between them become lines of the result.

    ``functions``: those of live sides, by side; None to take what the sides say.
    """
    captures = both(lambda: context.reference.record("about", Describe()), lambda: context.candidate.record("about", Describe()))
    for side, capture in zip(("reference", "candidate"), captures, strict=True):
        about = Describe.answer(capture)
        if functions is not None:
            about = replace(about, functions=functions[side])
        context.about[side] = about
        setattr(result, side, {**encode(about), "python": capture.manifest.versions.get("python")})
        result.preflight.append(
            f"{side}: {about.framework} {about.versions.get(about.framework, '')} on {about.device}, "
            f"Python {capture.manifest.versions.get('python')}"
        )
    result.preflight += differences(context.about["reference"], context.about["candidate"])


def differences(reference: Description, candidate: Description) -> list[str]:
    """What differs between how the two sides run, and what makes results unsure on either."""
    lines = []
    if reference.device != candidate.device:
        lines.append(f"the sides run on different devices: {reference.device} and {candidate.device}")
    for side, about in (("reference", reference), ("candidate", candidate)):
        if about.device != "cpu":
            lines += _reduced(side, about)
        level = about.flags.get("enable_compat", "off")
        if level != "off":
            lines.append(f"{side}: enable_compat is on {level}: what is imported there by another framework's name is this one's")
    if reference.framework == candidate.framework:
        lines += [
            f"{flag}: {reference.flags[flag]} against {candidate.flags[flag]}"
            for flag in sorted(reference.flags.keys() & candidate.flags.keys())
            if flag != "device" and reference.flags[flag] != candidate.flags[flag]
        ]
    return lines


def _reduced(side: str, about: Description) -> list[str]:
    """Settings that have products of float32 computed with fewer bits, told in a line."""
    reduced = {flag: value for flag, value in about.flags.items() if value == "tf32" or ("tf32" in flag and value is True)}
    if reduced and about.flags.get(TF32_OVERRIDE) == "0":
        named = ", ".join(reduced)
        said = (
            f"{side}: {named} would round float32 products to 10 bits; this check computes them in full "
            f'({TF32_OVERRIDE} = "" in `env` leaves it to the program)'
        )
        return [said]
    return [f"{side}: {flag} is {value}: float32 products are rounded to 10 bits" for flag, value in reduced.items()]


def _attempt(name: str, context: Context) -> StageResult:
    began = time.perf_counter()
    context.untraced.clear()
    try:
        result = run_stage(BY_NAME[name], context)
    except WorkerFailed as failure:
        result = failed(name, failure, context.framework(failure.side) if failure.side in context.about else "")
        own_failures.explain(context, result)
    context.note_used(name)
    if result.divergence is not None and result.divergence.rule != tracing_back.RULE:
        result.notes += [f"{UNTRACED} of the {side}: {why[:SHOWN]}" for side, why in context.untraced.items()]
    result.seconds["total"] = time.perf_counter() - began
    return result


def failed(stage: str, failure: WorkerFailed, framework: str = "") -> StageResult:
    """The result ``error`` of a stage whose side failed, with the remedy where known.

    Failures that users meet often have one.
    """
    known = remedy(failure.type, failure.message, framework)
    return StageResult(
        stage,
        ERROR,
        failure={
            "side": failure.side,
            "type": failure.type,
            "message": failure.message,
            "traceback": failure.traceback,
            "frames": failure.frames,
            "log": failure.log,
            "remedy": None if known is None else {"id": known.id, "fix": known.said(failure.frames)},
        },
    )
