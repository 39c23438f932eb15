"""Rounds of a judgement.

Weights and inputs are drawn anew, both sides run in fresh processes, the port first.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture.bounds import checked_path, near
from paralign.checking import failed
from paralign.context import Context
from paralign.errors import UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, CheckResult, StageResult
from paralign.registry import BY_NAME
from paralign.report.told import told
from paralign.run import inputs as tensors
from paralign.run.kinds_of_inputs import Kind, kinds, varied
from paralign.run.process import Process
from paralign.run.project import read
from paralign.run.recorder import both
from paralign.stages import run as run_stage
from paralign.stages.forward import moved_weights
from paralign.verification import constant_buffers, followed_tables, longer_inputs, randomness, tampering
from paralign.verification.certificate import Certificate, Judgement, Round
from paralign.verification.commitment import Committed, Turn, Waiting
from paralign.verification.outside import Outside
from paralign.worker.deeds import FRAMEWORKS
from paralign.worker.protocol import Describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.capture import Capture
    from paralign.run.project import Project
    from paralign.verification.tampering import Tampering

#: stages that a judgement can ask of a port: those whose answers follow from drawn weights and inputs alone
STAGES = ("weights", "forward", "backward")

#: rounds of drawn weights and inputs
ROUNDS = 3

#: sets of inputs that the forward pass of a round is judged on, one after the other in one process
DRAWS = 8

#: seeds lie below this
_SEEDS = 2**31


@dataclass
class _Case:
    """What is judged: the specification as a project, and the port's folder.

    Also the judge's own files, and modules that the port may not import.
    """

    project: Project
    specification: Path
    port: Path
    package: Path
    forbidden: set[str]
    kinds: tuple[Kind, ...] = ()
    sizes: tuple[int, ...] = ()
    tables: bool = False


@dataclass
class _Seen:
    """What one round came to."""

    results: list[StageResult]
    tampering: list[Tampering]
    files: dict[str, str]
    versions: dict[str, dict[str, str]]
    changes: _Changes


@dataclass
class _Changes:
    """What a round changes of the specification, and what it could not.

    Args:
        buffers: the reference's floating buffers as constructed, with a digest of each.
        moved: names of the buffers that were moved by noise.
        length: of the first axis of the longer set of inputs; None where there is none.
        tables: those of several values that the port follows when they are moved, and those that it does not.
    """

    buffers: dict[str, str] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    length: int | None = None
    tables: followed_tables.Tables = field(default_factory=followed_tables.Tables)


def verify(
    port: Path,
    specification: Path,
    *,
    rounds: int = ROUNDS,
    sizes: tuple[int, ...] = (),
    draws: int = DRAWS,
    tables: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Certificate:
    """Judge a port.

    Args:
        port: the folder that it lies in.
        specification: a folder outside of it, with a ``paralign.toml`` and the reference; ``[candidate]`` there names the module within
            the port's folder. Its ``[inputs]`` and ``[labels]`` are drawn anew.
        rounds: sets of weights and inputs.
        sizes: lengths of the first axis of inputs and labels, one a round, then from the first again; none for those of the specification.
            Further sets of the forward pass as specified have one from the least to one above the greatest; one more has several times the
            greatest (:mod:`~paralign.verification.longer_inputs`).
        draws: sets of inputs of a round's forward pass; beside the first as specified, wide ones, narrow ones and others
            (:class:`~paralign.run.kinds_of_inputs.Kind`).
        tables: reject a port that does not follow a buffer of several values when it is moved; else that is a weakness.
        progress: called with a line for every step.

    Raises:
        UsageError: the folders lie in each other, or the specification asks for what is not drawn.
        EnvironmentUnavailable: an interpreter is not there.
    """
    case = _case(port, specification)
    case.kinds, case.sizes, case.tables = kinds(draws - 1), sizes, tables
    guarded = [case.specification, case.package]
    before, own = tampering.fingerprints(guarded), tampering.fingerprints([case.port], tampering.OF_A_PORT)
    began = time.time()
    seen, beside = [], Outside()
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        size = sizes[number % len(sizes)] if sizes else None
        moved = bool(number % 2)
        asked = moved or (tables and number == rounds - 1)
        done = partial(beside.add, began=began, own=own)
        seen.append(_round(case, done, size, moved=moved, asked=asked))
        if seen[-1].tampering:
            break
    found = [t for one in seen for t in one.tampering] + tampering.changed(before, tampering.fingerprints(guarded))
    after = tampering.fingerprints([case.port], tampering.OF_A_PORT)
    found += [t for one in seen for t in tampering.rewritten(own, _below(case.port, one.files), after)]
    return _certificate(case, seen, list(dict.fromkeys(found)), before, sizes, beside)


def _case(port: Path, specification: Path) -> _Case:
    """Read the specification, and refuse what could not be judged.

    Raises:
        UsageError: see :func:`verify`.
    """
    port, folder = checked_path(port).resolve(), checked_path(specification).resolve()
    if not port.is_dir():
        raise UsageError(f"the port is no folder{near(port)}", where=str(port), hint="name the folder that holds the port's code")
    if not folder.exists():
        raise UsageError(
            f"the specification is not there{near(folder)}",
            where=str(folder),
            hint="name the folder that holds its paralign.toml",
        )
    folder = folder if folder.is_dir() else folder.parent
    if port == folder or port in folder.parents or folder in port.parents:
        raise UsageError(
            "the specification must lie outside of the port, and the port outside of it",
            where=f"{folder}, {port}",
            hint="copy one elsewhere",
        )
    project = read(specification, port)
    for name, spec in (("inputs", project.inputs), ("labels", project.labels)):
        _check_drawn(name, spec, project)
    if project.inputs is None:
        raise UsageError(
            "the specification has no [inputs]: nothing could be drawn", where=str(project.path), hint="add [inputs] shape = […]"
        )
    asked = [stage for stage in project.stages if stage in STAGES]
    if "forward" not in asked:
        raise UsageError(
            "the specification does not ask for the stage forward",
            where=str(project.path),
            hint=f"stages = {list(STAGES)!r}, or some of them",
        )
    project.stages = asked
    project.settings.modules = "none"
    own = project.candidate.framework or ""
    forbidden = {name for name in FRAMEWORKS if name != own} | _modules(project.reference.root)
    if project.candidate.root != port and port not in project.candidate.root.parents:
        raise UsageError(
            "the candidate's root lies outside of the port", where=str(project.candidate.root), hint="correct [candidate] root"
        )
    return _Case(project, folder, port, Path(__file__).parents[1], forbidden - _modules(port))


def _check_drawn(name: str, spec: Any, project: Project) -> None:
    """Refuse inputs that a port could know beforehand."""
    for part in _parts(spec):
        if isinstance(part, dict) and ("file" in part or "source" in part):
            raise UsageError(f"[{name}] come from a file or a loader, which a port may know", where=str(project.path), hint="give a shape")


def _parts(spec: Any) -> list[Any]:
    """The tables of inputs: several in a row, by keyword, or one."""
    if isinstance(spec, list):
        return spec
    if isinstance(spec, dict) and "keywords" in spec:
        return list(spec["keywords"].values())
    return [spec]


def _modules(root: Path) -> set[str]:
    """The names under which code in a folder is imported."""
    return {path.stem for path in root.iterdir() if _is_module(path)}


def _is_module(path: Path) -> bool:
    """Whether a path is a module, or a folder with modules."""
    if path.suffix == ".py":
        return True
    return path.is_dir() and any(path.glob("*.py"))


def _round(case: _Case, done: Callable[[list[Capture], set[str]], None], size: int | None, *, moved: bool, asked: bool) -> _Seen:
    """One set of weights, and drawn inputs for each stage; fresh processes and folders.

    ``done`` takes the port's captures, and the folders of those that it was handed, while they are there.
    Where ``moved``, parameters that are constant as constructed (a normalisation's) are moved by noise: a port may leave them out.
    Where ``asked``, the port is asked of tables in the end.
    """
    with ExitStack() as stack:
        own, other = (Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paralign-"))) for _ in range(2))
        context, candidate = _context(case, own, other, stack)
        changes = _Changes()
        results = list(_stages(case, (context, candidate.turn), own, size, changes, moved=moved, asked=asked))
        folders = [case.specification, case.project.reference.root, own]
        frameworks = FRAMEWORKS - case.forbidden
        seen = tampering.of_captures(candidate.captures, folders, candidate.handed, case.forbidden, frameworks)
        seen += tampering.of_code(candidate.code, case.port, frameworks)
        done(candidate.captures, candidate.handed)
        files = {file: known for capture in candidate.captures for file, known in capture.manifest.files.items()}
        versions = {side: about.versions for side, about in context.about.items()}
    return _Seen(results, seen, files, versions, changes)


def _context(case: _Case, own: Path, other: Path, stack: ExitStack) -> tuple[Context, Committed]:
    """Both sides, each with a folder of its own; the reference waits for the port."""
    project, turn, seed = case.project, Turn(), secrets.randbelow(_SEEDS)
    settings = replace(project.settings, seed=seed, draws=case.kinds, replay=True)

    def start(name: str, folder: Path, cwd: Path) -> Process:
        side = project.reference if name == "reference" else project.candidate
        (folder / "workers").mkdir(exist_ok=True)
        watched = str(case.port) if name == "candidate" else ""
        return Process(
            name,
            side,
            folder / "workers",
            cwd,
            seed=seed,
            timeout=project.timeout,
            ignore=[str(folder)],
            own=watched,
            sources=watched or str(side.root),
        )

    reference = Waiting(
        "reference", lambda: start("reference", own, project.folder), own / "captures", {"seed": seed}, turn=turn, timeout=project.timeout
    )
    candidate = Committed("candidate", lambda: start("candidate", other, case.port), other / "captures", {"seed": seed}, turn=turn)
    stack.callback(reference.close)
    stack.callback(candidate.close)
    return Context(reference, candidate, settings), candidate


def _stages(
    case: _Case, sides: tuple[Context, Turn], own: Path, size: int | None, changes: _Changes, *, moved: bool, asked: bool
) -> Iterator[StageResult]:
    """The weights, then each stage on inputs of its own.

    ``changes`` takes note of what differs from the specification.
    """
    context, turn = sides
    try:
        captures = both(
            lambda: context.reference.record("about", Describe()),
            lambda: context.candidate.record("about", Describe()),
        )
        for side, capture in zip(("reference", "candidate"), captures, strict=True):
            context.about[side] = Describe.answer(capture)
        _draw(case, context, own, "weights", size)
        turn.free = True
        weights = _run("weights", context)
        turn.free = False
        yield weights
        if weights.verdict in (ERROR, DIVERGED):
            return
        changes.buffers = constant_buffers.digests(context)
        if moved and weights.verdict == ALIGNED:
            _move(context, turn, changes)
        results: dict[str, StageResult] = {}
        for name in case.project.stages:
            if name == "weights":
                continue
            _draw(case, context, own, name, size)
            results[name] = _run(name, context)
            if name == "forward" and case.sizes and results[name].verdict == ALIGNED:
                changes.length = _judge_longer(case, context, own, results[name])
            yield results[name]
        if asked and all(result.verdict == ALIGNED for result in results.values()):
            _move_parameters(context)
            _ask_of_tables(case, (context, turn), own, size, changes)
            if case.tables:
                followed_tables.reject(results["forward"], changes.tables)
    except WorkerFailed as failure:
        yield failed("weights", failure)


def _ask_of_tables(case: _Case, sides: tuple[Context, Turn], own: Path, size: int | None, changes: _Changes) -> None:
    """Whether the port follows tables of several values.

    The last of a round, as weights stay moved.
    """
    context, turn = sides
    turn.free = True  # as below: these inputs are not judged
    effects = followed_tables.reacting(context, changes.moved)
    turn.free = False

    def draw(number: int) -> Capture:
        place = own / f"inputs-tables-{number}"
        return tensors.save(place, "inputs", _drawn(case, "inputs", _sized(case.project.inputs, size), Kind.SPECIFIED))

    asked = [followed_tables.ask(context, effects.acting, draw), followed_tables.Tables(unasked=effects.unknown)]
    changes.tables = followed_tables.together(asked)


def _move_parameters(context: Context) -> None:
    """Move parameters that are still constant, as zeros hide the tables before them."""
    parameters = moved_weights.movable(context, single=True)
    if parameters:
        context.weights = moved_weights.load(context, parameters)


def _move(context: Context, turn: Turn, changes: _Changes) -> None:
    """Move what is constant as constructed by noise, the same on both sides."""
    parameters = moved_weights.movable(context, single=True)
    turn.free = True  # the reference's passes are no answers: inputs of theirs are not judged
    buffers = constant_buffers.movable(context, parameters)
    turn.free = False
    changes.moved = set(buffers)
    if parameters or buffers:
        context.weights = moved_weights.load(context, {**parameters, **buffers})


def _judge_longer(case: _Case, context: Context, own: Path, result: StageResult) -> int | None:
    """Judge a set of inputs whose first axis is much longer than those that were named.

    Gives the length; None where none was drawn.
    """
    first = context.inputs.select(name="inputs")[0].shape[0] if context.inputs is not None else 1
    length = longer_inputs.drawn_length(max(case.sizes), longer_inputs.elements_of(context, first))
    if length is None:
        result.warnings.append("no first axis well above the greatest of --sizes was drawn: it would take too much memory")
        return None

    def draw(length: int) -> Capture:
        return tensors.save(own / "inputs-longer", "inputs", _drawn(case, "inputs", _sized(case.project.inputs, length), Kind.SPECIFIED))

    longer_inputs.judge(context, result, length, draw)
    return length


def _run(name: str, context: Context) -> StageResult:
    try:
        result = run_stage(BY_NAME[name], context)
        if name == "backward":
            randomness.judge(context, result)
    except WorkerFailed as failure:
        return failed(name, failure)
    return result


def _draw(case: _Case, context: Context, own: Path, stage: str, size: int | None) -> None:
    """Draw inputs and labels that nothing has seen.

    For ``forward`` a set of each kind, for ``backward`` a batch for each step.
    """
    further: tuple[Kind, ...] = ()
    lengths: list[int | None] = []
    if stage == "forward":
        further = case.kinds
        lengths = [_other_length(case, size) if kind is Kind.SPECIFIED else size for kind in further]
    elif stage == "backward" and case.project.labels is not None:
        further = (Kind.SPECIFIED,) * (context.settings.steps - 1)
        lengths = [size] * len(further)
    for name, spec in (("inputs", case.project.inputs), ("labels", case.project.labels)):
        if spec is None:
            continue
        sets = zip((size, *lengths), (Kind.SPECIFIED, *further), strict=True)
        drawn = [_drawn(case, name, _sized(spec, length), kind) for length, kind in sets]
        setattr(context, name, tensors.save_several(own / f"{name}-{stage}", name, drawn))


def _other_length(case: _Case, size: int | None) -> int | None:
    """Another length of the first axis, where it may have several.

    It is one that nobody named, up to one more than the greatest that was.
    """
    if not case.sizes:
        return size
    others = [n for n in range(min(case.sizes), max(case.sizes) + 2) if n != size]
    return secrets.choice(others) if others else size


def _drawn(case: _Case, name: str, spec: Any, kind: Kind) -> Any:
    """One set of inputs or labels, of a kind."""
    made = tensors.make(spec, case.project.folder, f"[{name}]", secrets.randbelow(_SEEDS))
    return varied(spec, made, kind, np.random.default_rng(secrets.randbelow(_SEEDS)))


def _sized(spec: Any, size: int | None) -> Any:
    """A table of inputs with another length of the first axis."""
    if size is None:
        return spec
    if isinstance(spec, list):
        return [_sized(part, size) for part in spec]
    if "keywords" in spec:
        return {"keywords": {key: _sized(part, size) for key, part in spec["keywords"].items()}}
    return {**spec, "shape": [size, *spec.get("shape", [])[1:]]}


def _certificate(
    case: _Case,
    seen: list[_Seen],
    found: list[Tampering],
    before: dict[str, str],
    sizes: tuple[int, ...],
    beside: Outside,
) -> Certificate:
    results = [result for one in seen for result in one.results]
    files: dict[str, str] = {}
    for one in seen:
        files.update(one.files)
    port = _below(case.port, files)
    stages = [stage for stage in case.project.stages if stage != "weights"]
    return Certificate(
        _judgement(case, results, found, inconclusive=bool(beside.made or _undecided(case, seen))),
        list(map(str, found)) or [*beside.reasons(), *_all_reasons(seen), *_undecided(case, seen)],
        tampering.digest(_below(case.specification, before), case.specification),
        tampering.digest(port, case.port),
        tampering.digest(_below(case.package, before), case.package),
        [_told(number, one.results) for number, one in enumerate(seen, 1)],
        seen[-1].versions,
        f"{len(seen)} rounds of drawn weights; the stages weights, {', '.join(stages)}, each on inputs of its own{_told_kinds(case.kinds)}"
        f"{_told_lengths(seen)}{constant_buffers.told(_moved(seen))}",
        beside.weaknesses(case.port) + _weaknesses(case, seen, sizes),
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
        {str(Path(file).relative_to(case.port)): known for file, known in sorted(port.items())},
    )


def _below(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The files that lie in a folder, with what is known of each."""
    return {file: known for file, known in files.items() if Path(file).is_relative_to(folder)}


def _all_reasons(seen: list[_Seen]) -> list[str]:
    """Why stages of any round failed or diverged."""
    found: list[str] = []
    for one in seen:
        found += filter(None, _reasons(one.results).values())
    return found


def _told_kinds(drawn: tuple[Kind, ...]) -> str:
    """What the forward pass was given beside the first set of inputs, in words."""
    if not drawn:
        return ""
    return f"; forward on {len(drawn) + 1} sets: {', '.join(k.value for k in (Kind.SPECIFIED, *drawn))}"


def _told_lengths(seen: list[_Seen]) -> str:
    """The longer first axes that were drawn, in words."""
    lengths = [str(one.changes.length) for one in seen if one.changes.length is not None]
    return f"; forward on longer first axes: {', '.join(lengths)}" if lengths else ""


def _tables(seen: list[_Seen]) -> followed_tables.Tables:
    return followed_tables.together([one.changes.tables for one in seen])


def _undecided(case: _Case, seen: list[_Seen]) -> list[str]:
    """Why a port is not accepted that has to follow tables and was not seen to."""
    return followed_tables.undecided(_tables(seen)) if case.tables else []


def _moved(seen: list[_Seen]) -> set[str]:
    return {name for one in seen for name in one.changes.moved}


def _judgement(case: _Case, results: list[StageResult], found: list[Tampering], *, inconclusive: bool) -> Judgement:
    verdicts = [result.verdict for result in results]
    if found:
        return Judgement.TAMPERED
    if ERROR in verdicts:
        return Judgement.FAILED
    if DIVERGED in verdicts:
        return Judgement.REJECTED
    asked = {result.name for result in results if result.verdict == ALIGNED}
    whole = all(verdict == ALIGNED for verdict in verdicts) and asked == {"weights", *case.project.stages}
    if whole and not inconclusive:
        return Judgement.ACCEPTED
    return Judgement.INCONCLUSIVE


def _reasons(results: list[StageResult]) -> dict[str, str]:
    report = told(CheckResult(results).to_dict())
    return {stage.name: f"{stage.name}: {stage.sentence}" if stage.sentence else "" for stage in report.stages if stage.verdict != ALIGNED}


def _told(number: int, results: list[StageResult]) -> Round:
    ratios = {result.name: None if result.worst is None else result.worst.ratio for result in results}
    return Round(number, {result.name: result.verdict for result in results}, ratios, _reasons(results))


def _weaknesses(case: _Case, seen: list[_Seen], sizes: tuple[int, ...]) -> list[str]:
    """What this judgement does not show."""
    found = []
    results = [result for one in seen for result in one.results]
    if "backward" not in case.project.stages:
        found.append("training was not judged: the specification does not ask for the stage backward")
    if len(set(sizes)) < 2:  # noqa: PLR2004 - two are the fewest that differ
        found.append("inputs of one size only")
    found += [warning for result in results for warning in result.warnings]
    asked = _tables(seen)
    found += followed_tables.weakness(asked)
    known = _moved(seen) | asked.followed | asked.own
    found += constant_buffers.weaknesses([one.changes.buffers for one in seen], known)
    found.append("the port may tell that it is judged: what it does outside of a check was not seen")
    return list(dict.fromkeys(found))
