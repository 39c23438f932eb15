"""The public verbs: ``check``, ``compare`` and ``convert_weights``."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign import streaming
from paralign.capture import Capture
from paralign.capture.bounds import checked_path, near
from paralign.checking import UNCARRIED, describe, given_tensors, run_stages, sides
from paralign.context import Context
from paralign.conversion import Conversion, carried, layers, modelled, plain
from paralign.conversion.conversion_outcome import INCOMPLETE
from paralign.errors import UsageError, WorkerFailed, plain_text
from paralign.formats.saving import check_destination
from paralign.locate import pipeline
from paralign.locate.gradients.asked import asked
from paralign.locate.laboratory import watched
from paralign.model import DIVERGED, CheckResult, Side, Tolerance
from paralign.progress import kept
from paralign.registry import BY_NAME
from paralign.repair import applying, trying
from paralign.repair.trying import Repaired
from paralign.report import artifacts, notebook, page, pictures
from paralign.run import inputs as tensors
from paralign.run.functions import project as project_of
from paralign.run.live import Live, check_functions, functions_of, untouched_process
from paralign.run.locking import locked
from paralign.run.pace import pace_of
from paralign.run.process import sweep
from paralign.run.profiling import Watch
from paralign.run.project import DEFAULTS, STAGES, Settings, check_stages, read
from paralign.run.recorder import Outdated, Recorder
from paralign.run.trainings import Trainings
from paralign.run.turns import turn
from paralign.stages import run as run_stage
from paralign.stages.offline.from_captures import arrays_of, compare_captures, compare_files
from paralign.weights import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.conversion.layers import Layers
    from paralign.run.project import Project

#: the two sides, as they are called in folders and reports
SIDES = ("reference", "candidate")

CheckResult.renderer = staticmethod(notebook.html)


def check(
    reference: Side,
    candidate: Side,
    *,
    inputs: Any = None,
    labels: Any = None,
    stages: list[str] | None = None,
    weights: str = "copy",
    rules: Rules | str | Path | None = None,
    seed: int = 0,
    steps: int = 3,
    ratio: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    strict: bool = False,
    paths: list[str] | None = None,
    training: Trainings | None = None,
    schedule: dict[str, Any] | None = None,
    second_gradients: bool = False,
    out: str | Path | None = None,
) -> CheckResult:
    """Check a port whose two sides live in this process.

    Args:
        reference: what is trusted.
        candidate: the port.
        inputs: a numpy array, a tuple (positional) or dict (keyword) of them; handed to each side as its own tensors.
        labels: the same for ``loss(outputs, labels)`` and ``metric(outputs, labels)``.
        stages: names of stages; None for all but ``init``, ``train`` and ``distributed`` that the sides have functions for.
        weights: ``copy`` (the reference's are carried over first) or ``as-is``.
        rules: where weights go, before all that paralign finds out by itself: rules, or a file of them (docs/project.md).
        seed: what both sides are seeded with.
        steps: training steps of the backward stage.
        ratio: greatest error ÷ noise that counts as aligned; None for the method's own.
        atol: absolute tolerance, only where wanted; with ``rtol`` it replaces error ÷ noise.
        rtol: relative tolerance, as ``atol``.
        strict: let inherent differences between frameworks diverge.
        paths: files for ``predict``.
        training: how the stage ``train`` trains; None for the defaults.
        schedule: how long the training is and how it goes: the keys of ``[training]`` that docs/optimizer.md lists.
        second_gradients: also compare the gradient of the loss's gradient with respect to the inputs.
        out: folder for the captures, the report and the guides' files; None keeps nothing.

    Returns:
        The result; models, optimizers, schedules and random states are afterwards as they were before (docs/project.md says what is not).

    Raises:
        UsageError: an unknown stage, no stage, or an argument of the wrong kind; or another check runs in a thread of this process that
            itself waits, perhaps for this one.

    Example:
        >>> import numpy as np
        >>> from paralign import Side, check
        >>> double = lambda x: 2 * x
        >>> port = Side(framework="numpy", model=lambda x: x + x)
        >>> result = check(Side(framework="numpy", model=double), port, inputs=np.ones((2, 3)) / 3, stages=["forward"])
        >>> result["forward"].pairs[0].stats.mismatched
        0
    """
    sides = {"reference": reference, "candidate": candidate}
    _admit(sides, weights, stages)
    for what, value, least in (("ratio", ratio, 0), ("atol", atol, 0), ("rtol", rtol, 0), ("steps", steps, 1), ("seed", seed, 0)):
        if value is not None and not value >= least:
            raise UsageError(f"{what} must be at least {least}, not {value}")
    settings = Settings(
        seed=seed,
        steps=steps,
        weights=weights,
        rules=_rules(rules),
        strict=strict,
        paths=list(paths or []),
        second_gradients=second_gradients,
        training=training or Trainings(),
        pace=pace_of(schedule or {}, "schedule:"),
        tolerance={"": Tolerance(ratio, atol, rtol)},
    )
    names = check_stages(list(DEFAULTS) if stages is None else stages)
    return _check_live(sides, settings, names, {"inputs": inputs, "labels": labels}, out)


def _admit(sides: dict[str, Side], weights: str, stages: list[str] | None) -> None:
    """Say what a caller of :func:`check` has given that is of the wrong kind.

    Raises:
        UsageError: what is no side, no choice, or no stage.
    """
    if weights not in ("copy", "as-is"):
        raise UsageError(f"weights={weights!r} is not a choice", hint='choose "copy" or "as-is"')
    for name, side in sides.items():
        if not isinstance(side, Side):
            raise UsageError(
                f"the {name} must be a Side, not {type(side).__name__}", hint="check(Side(model=...), Side(model=...), inputs=...)"
            )
        check_functions(name, side)
    if stages is not None and not stages:
        raise UsageError("no stage is named", hint="leave `stages` out for all of them, or name some of: " + ", ".join(STAGES))


def _check_live(
    sides: dict[str, Side], settings: Settings, names: list[str], values: dict[str, Any], out: str | Path | None
) -> CheckResult:
    """Run the stages on sides that live in this process, and write the report where a folder is named."""
    with turn(), untouched_process(), _folder(out) as folder, ExitStack() as stack:
        recorders = {
            name: Recorder(name, partial(Live, name, side, seed=settings.seed), folder / "captures" / name, {})
            for name, side in sides.items()
        }
        for recorder in recorders.values():
            stack.callback(recorder.close)
        context = Context(recorders["reference"], recorders["candidate"], settings)
        about = {name: sorted(functions_of(side, list)) for name, side in sides.items()}
        given = {name: tensors.save(folder / "captures" / name, name, value) for name, value in values.items() if value is not None}
        told = stack.enter_context(notebook.under_way())
        result = run_stages(context, names, told, lambda: (given.get("inputs"), given.get("labels")), about)
        if out is not None:
            artifacts.write(result, context.artifacts, folder)
            page.write(folder, result, Path.cwd())
    return result


def _rules(given: Rules | str | Path | None) -> Rules | None:
    """Rules, read from their file where one is named.

    Raises:
        UsageError: the file is not there, is no text, or holds no rules.
    """
    if given is None or isinstance(given, Rules):
        return given
    if not isinstance(given, (str, Path)):
        raise UsageError(f"rules must be Rules or the path of a file, not {type(given).__name__}", hint='check(..., rules="rules.toml")')
    return plain.rules_of(Path(given))


def _make(folder: Path, *inner: str) -> None:
    """Make the output folder and folders in it."""
    try:
        for path in (folder, *(folder / name for name in inner)):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file is there" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
        raise UsageError(
            f"the output folder cannot be made: {why}",
            where=str(folder),
            hint="name another: --out, or `out` in paralign.toml",
        ) from error


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        path = Path(out)
        _make(path)
        with locked(path.resolve()):
            artifacts.invalidate(path, STAGES)
            yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="paralign-") as folder:
        yield Path(folder)


def check_project(
    directory: str | Path,
    stages: list[str] | None = None,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    strict: bool = False,
    profile: bool = False,
    progress: Callable[[str], None] | None = None,
    repair: float | None = None,
) -> tuple[CheckResult, Path]:
    """Check the port that a project file describes, each side in its own interpreter.

    Args:
        directory: the folder of ``paralign.toml``.
        stages: names of stages; None for those of the project file.
        out: output folder; None for the project file's.
        fresh: run the reference again although nothing has changed.
        strict: let inherent differences between frameworks diverge.
        profile: look at where the time goes; the result's ``profile`` says it.
        progress: called with a line for every step.
        repair: seconds in which edits of what diverges are tried; None for those of the project file.

    Returns:
        The result and the folder that holds ``report.json`` and the guides' files.

    Raises:
        UsageError: the project file or a stage is wrong.
        EnvironmentUnavailable: an interpreter is not there.
    """
    done = repair_project(directory, stages, out=out, fresh=fresh, strict=strict, profile=profile, progress=progress, seconds=repair)
    return done.result, done.folder


@dataclass
class Mended:
    """A check, the output folder, and what a repair came to (docs/repair.md)."""

    result: CheckResult
    folder: Path
    repaired: Repaired


def repair_project(
    directory: str | Path,
    stages: list[str] | None = None,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    strict: bool = False,
    profile: bool = False,
    progress: Callable[[str], None] | None = None,
    seconds: float | None = None,
) -> Mended:
    """Check a project, and try edits of the candidate that make what diverges aligned; the user's files are not changed.

    Arguments as in :func:`check_project`; ``seconds``: its ``repair``.
    """
    project = read(Path(directory))
    project.settings.strict, project.settings.rules = strict, _rules(project.rules)
    names = check_stages(stages) if stages else project.stages
    folder = Path(out).resolve() if out is not None else project.out.resolve()
    _make(folder, "workers", "captures")
    with locked(folder) as lock, notebook.under_way(progress) as told:
        sweep(folder / "workers")
        artifacts.invalidate(folder, names)
        applying.remove_patch(folder)
        kept.invalidate(folder, names, project.settings)
        begun = kept.basis(project, names)
        try:
            result, context = _checked(project, names, folder, told, fresh=fresh, lock=lock, profile=profile)
        except Outdated as reason:
            told("the reference again, from the start")
            result, context = _checked(project, names, folder, told, fresh=True, lock=lock, profile=profile)
            result.preflight.append(f"nothing was reused from an earlier run: {reason} (it keeps something between its runs)")
        result.command = _command(project, stages, out, strict=strict)
        limit = project.repair if seconds is None else seconds
        if limit > 0 and project.streaming.streaming:  # a trial would build the models whole
            limit = 0.0
            result.preflight.append("no repair was tried: the models are streamed, block by block")
        repaired = Repaired(verdict=result.verdict)
        if limit > 0:
            _write(project, result, context, folder)  # what the check came to stays, whatever becomes of the search
            repaired = trying.repair(project, result, folder, limit, told)
        applying.write_patch(folder, repaired)
        _write(project, result, context, folder)
        kept.write(folder, project, result, begun, context.used, strict=strict)
        page.write(folder, result, project.folder)
    return Mended(result, folder, repaired)


def _write(project: Project, result: CheckResult, context: Context, folder: Path) -> None:
    """Write the results of a check into its output folder."""
    settings = project.settings
    pictures.draw(result, context.artifacts, folder, settings.pictures)
    naming, given = artifacts.Naming(settings.names), artifacts.Given(None if context.unlabelled else context.labels)
    artifacts.write(result, context.artifacts, folder, settings.diff_threshold, naming, given)


def _command(project: Project, stages: list[str] | None, out: str | Path | None, *, strict: bool) -> str:
    """What makes a check again, from the folder above the project's."""
    words = ["paralign", "check", project.folder.name or ".", *(stages or [])]
    words += ["--strict"] if strict else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)


def durations(directory: str | Path, stages: list[str] | None = None, out: str | Path | None = None) -> dict[str, float | None]:
    """How many seconds each stage of a check took last time, in the order in which they run; None where that is not known.

    Raises:
        UsageError: the project file or a stage is wrong.
    """
    project = read(Path(directory))
    folder = Path(out) if out is not None else project.out
    return {name: kept.seconds(folder, name) for name in (check_stages(stages) if stages else project.stages)}


def _checked(
    project: Project, names: list[str], folder: Path, progress: Callable[[str], None], *, fresh: bool, lock: Path, profile: bool
) -> tuple[CheckResult, Context]:
    """The stages of a project.

    Raises:
        Outdated: captures of the reference that were reused are not what it computes now; never with ``fresh``.
    """
    with nullcontext() if not profile else Watch() as watch, sides(project, folder, fresh=fresh, lock=lock) as context:
        if project.streaming.streaming:
            result, files = streaming.check(project, folder, names, fresh=fresh, lock=lock, progress=progress)
            context.used = dict.fromkeys(names, files)
        else:
            result = run_stages(context, names, progress, lambda: given_tensors(project, context, folder), None)
        if context.reference.reused:
            reused = ", ".join(sorted(context.reference.reused))
            result.preflight.append(f"reused from an earlier run of the reference: {reused} (--fresh runs it again)")
    if watch is not None:
        own = () if project.streaming.streaming else (context.reference, context.candidate)  # streamed blocks have recorders of their own
        result.profile = watch.result({side.side: side.spent for side in own})
    return result, context


@contextmanager
def opened(directory: str | Path) -> Iterator[Context]:
    """Both sides of a project, described and with inputs and labels, for what is no check; nothing is kept.

    Raises:
        UsageError: the project file is wrong.
        WorkerFailed: a side does not start.
    """
    project = read(Path(directory))
    with tempfile.TemporaryDirectory(prefix="paralign-") as name:
        folder = Path(name)
        _make(folder, "workers", "captures")
        try:
            with sides(project, folder, fresh=True) as context:
                describe(context, CheckResult(), None)
                context.inputs, context.labels = given_tensors(project, context, folder)
                yield context
        except WorkerFailed as failure:
            raise _without_log(failure) from failure


def gradient_of(directory: str | Path, what: str, mode: str = "eval", progress: Callable[[str], None] = lambda _: None) -> CheckResult:
    """Both sides' gradients of what is named, and where the backward passes part; nothing is kept.

    Args:
        directory: of a project.
        what: a parameter, a module, ``file.py:12``, ``outputs`` or ``loss``, as either side calls it.
        mode: ``eval``, or ``train`` with what is random switched off.
        progress: is told what is done.

    Raises:
        UsageError: the project file is wrong, or neither side has what is named.
        WorkerFailed: a side fails.
    """
    progress("starting both sides")
    with opened(directory) as context:
        progress("weights")
        result = CheckResult([run_stage(BY_NAME["weights"], context)])
        if context.plan is None:
            return result
        progress(f"gradients of {what}")
        stage = asked(context, what, mode)
        stage.warnings += [UNCARRIED] if result.stages[0].verdict == DIVERGED else []
    return CheckResult([stage.list_first()])


def trained_layers(
    directory: str | Path,
    reference: str | Path,
    candidate: str | Path,
    *,
    again: str | Path | None = None,
    within: str | None = None,
    strip: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Layers:
    """What the layers of two trained models give on the same inputs, each model with the weights of its own file.

    Args:
        directory: of a project, whose sides build the models.
        reference: a checkpoint of the reference's model.
        candidate: one of the candidate's.
        again: another of the reference's, of a training under another seed: what seeds alone do.
        within: as in :func:`convert_weights`.
        strip: as in :func:`convert_weights`.
        progress: is told what is done.

    Raises:
        UsageError: the project has no inputs, or a file lacks a parameter of its model.
        WorkerFailed: a side fails.
    """
    files = [plain.opened(path, within, strip) for path in (reference, candidate, *([again] if again else []))]
    progress("starting both sides")
    with opened(directory) as context:
        progress("running both models")
        return layers.compare(context, files[0], files[1], files[2] if again else None)


def _without_log(failure: WorkerFailed) -> WorkerFailed:
    """A failure that tells its frames itself: its log goes with the folder."""
    told = "".join(f"\n  {frame}" for frame in failure.frames)
    return WorkerFailed(failure.type, failure.message + told, side=failure.side, frames=failure.frames)


def compare(
    reference: str | Path,
    candidate: str | Path,
    *,
    ratio: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    log: str | Path | None = None,
    threshold: float = 1e-6,
) -> CheckResult:
    """Compare two captures, or two files of arrays (``.npy`` with a dict as reprod_log writes it, ``.npz``), without running anything.

    Args:
        reference: what is trusted.
        candidate: what is held against it.
        ratio: as in :func:`check`.
        atol: as in :func:`check`.
        rtol: as in :func:`check`.
        log: a new file for reprod_log's lines about every entry.
        threshold: the greatest mean difference that passes in these lines; it decides no verdict.

    Raises:
        UsageError: a path that is not there, a capture against a file, or a log that is there already.
        CaptureFormatError: a corrupt or truncated capture or file.
        UnsafeFile: a file that holds more than arrays, scalars and containers.
        WriteFailed: the log cannot be written.
    """
    paths = Path(reference), Path(candidate)
    for path in paths:
        if not checked_path(path).exists():
            raise UsageError(
                f"there is no such file or folder{near(path)}",
                where=str(path),
                hint="give two captures (folders), or two .npy or .npz files",
            )
    if log is not None and checked_path(log).exists():
        raise UsageError("the log is there already", where=str(log), hint="name another file; nothing is replaced")
    tolerance = Tolerance(ratio, atol, rtol)
    if paths[0].is_dir() != paths[1].is_dir():
        raise UsageError(
            "a capture cannot be compared with a file", where=f"{paths[0]}, {paths[1]}", hint="give two captures, or two files"
        )
    captures = (Capture.open(paths[0]), Capture.open(paths[1])) if paths[0].is_dir() else None
    result = compare_captures(*captures, tolerance) if captures is not None else compare_files(*paths, tolerance)
    if log is not None:
        reference_arrays, candidate_arrays = (
            artifacts.compared(result.stages[0], *captures) if captures else (arrays_of(paths[0]), arrays_of(paths[1]))
        )
        lines = artifacts.log(result.stages[0], reference_arrays, candidate_arrays, threshold)
        artifacts.replace(Path(log), plain_text("\n".join(lines)) + "\n")
    return result


def convert_weights(
    source: str | Path,
    destination: str | Path,
    *,
    model: str | Path | list[str] | None = None,
    rules: Rules | str | Path | None = None,
    inputs: Any = None,
    origin: str | None = None,
    prove: bool = True,
    within: str | None = None,
    strip: str | None = None,
    max_shard_bytes: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    step: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Conversion:
    """Convert a checkpoint: to another format, or to another model's names and layouts; about one tensor is in memory at a time.

    Args:
        source: a file, an index of shards, or a folder that holds one.
        destination: its name tells the format.
        model: the folder of a ``paralign.toml`` whose two sides build the models, or two of ``FILE.py:FUNCTION``; None where rules say
            all, or where nothing but the format is to change.
        rules: renamings and routes, or the path of a file of them.
        inputs: with ``model``, an ``[inputs]`` entry as in a project file; it goes before the project's.
        origin: whose weights these are, where that is not told: ``torch``, ``paddle``, ``numpy``; with ``model`` also ``reference``,
            ``candidate``.
        prove: with ``model``, whether to run both.
        within: dotted keys under which the tensors lie in the source; None: they are looked for.
        strip: a prefix to be taken off the names; None: those of wrappers, such as ``module.``.
        max_shard_bytes: write shards of at most so many bytes, and an index.
        overwrite: whether a checkpoint that is there may be replaced.
        dry_run: plan and prove, but write nothing.
        step: called with a line for every step.
        progress: told of bytes written, bytes in all, and the file.

    Returns:
        What it came to; see :class:`~paralign.conversion.Conversion` for the verdicts. Nothing is written where a tensor has no place.

    Raises:
        UsageError: as :func:`paralign.formats.convert`; a rule speaks of no tensor; the source belongs to neither model.
        UnsafeFile, CaptureFormatError, UnsupportedTensor: as :func:`paralign.formats.open_checkpoint`.
        WorkerFailed: a model cannot be built.
    """
    checkpoint = plain.opened(source, within, strip)
    check_destination(Path(destination), overwrite=overwrite or dry_run, sources=checkpoint.identities)
    wanted = rules if isinstance(rules, Rules) or rules is None else plain.rules_of(Path(rules))
    if model is None:
        found = plain.plan(checkpoint, Path(destination), wanted, origin)
    else:
        with tempfile.TemporaryDirectory(prefix="paralign-") as scratch, _modelled(model, inputs, Path(scratch), step) as context:
            found = modelled.plan(context, checkpoint, Path(destination), wanted, prove=prove, origin=origin, progress=step)
    found.shapes = {name: tuple(entry.shape) for name, entry in checkpoint.entries.items()}
    if found.verdict != INCOMPLETE:
        plain.carry(found, checkpoint, dry_run=dry_run, overwrite=overwrite, max_shard_bytes=max_shard_bytes, progress=progress)
    return found


def convert_optimizer(
    source: str | Path,
    destination: str | Path,
    *,
    model: str | Path = ".",
    within: str | None = None,
    overwrite: bool = False,
    step: Callable[[str], None] = lambda _: None,
) -> carried.Carried:
    """Carry what an optimizer remembers from one framework's file to the other's, by the two optimizers of a project.

    Args:
        source: a ``.pth`` or a ``.pdopt``.
        destination: the other; its name tells the framework.
        model: the folder of a ``paralign.toml`` whose sides have ``build_model()`` and ``build_optimizer(model)``.
        within: dotted keys under which the state lies in the source; None: it is looked for.
        overwrite: whether a file that is there may be replaced.
        step: called with a line for every step.

    Raises:
        UsageError: as :func:`convert_weights`; the state cannot be mapped, or fits no parameter.
        WorkerFailed: a side failed.
    """
    checkpoint, path = carried.opened(Path(source), within), Path(destination).absolute()
    check_destination(path, overwrite=overwrite, sources=checkpoint.identities)
    if not path.parent.is_dir():
        raise UsageError("the folder of the destination is not there", where=str(path.parent), hint="make it first")
    written = path.with_name(f".{path.name}.tmp")
    try:
        with tempfile.TemporaryDirectory(prefix="paralign-") as scratch, _modelled(model, None, Path(scratch), step) as context:
            found = carried.carry(context, checkpoint, path, written, step)
        check_destination(path, overwrite=overwrite, sources=checkpoint.identities)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    return found


@contextmanager
def _modelled(model: str | Path | list[str], inputs: Any, folder: Path, step: Callable[[str], None]) -> Iterator[Context]:
    """Both models of a conversion, described and with their inputs; what they record goes into a folder."""
    project = project_of(model, folder) if isinstance(model, list) else read(Path(model))
    project.inputs = project.inputs if inputs is None else inputs
    _make(folder, "workers", "captures")
    try:
        with sides(project, folder, fresh=True) as context:
            step("starting both sides")
            describe(context, CheckResult(), None)
            context.inputs, _ = given_tensors(project, context, folder)
            yield context
    except WorkerFailed as failure:
        raise _without_log(failure) from failure


def locate_captures(reference: str | Path, candidate: str | Path | None = None) -> CheckResult:
    """Where two recorded runs part, by single operations, without running anything.

    Args:
        reference: a capture of operations, as a check leaves it in ``captures/reference``; or the output folder of a check, whose
            captures of the forward pass are taken.
        candidate: the other side's capture; None with an output folder.

    Returns:
        One stage whose ``divergences`` are suspects: only a live run can confirm them.

    Raises:
        UsageError: a path that is not there, or captures without operations.
        CaptureFormatError: a corrupt capture.
    """
    paths = [Path(reference), Path(candidate)] if candidate is not None else [Path(reference) / "captures" / s for s in SIDES]
    if candidate is None:
        paths = [path / watched.OPERATIONS for path in paths]
    for path in paths:
        if not checked_path(path).is_dir():
            raise UsageError(
                f"there is no capture of operations{near(reference)}",
                where=str(path),
                hint="name two captures, or the output folder of `paralign check` (a stage that agreed in all values leaves them too)",
            )
    return pipeline.recorded(Capture.open(paths[0]), Capture.open(paths[1]))
