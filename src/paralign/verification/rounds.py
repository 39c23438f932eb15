"""Rounds of a judgement.

Weights and inputs are drawn anew, both sides run in fresh processes, the port first.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.checking import failed
from paralign.context import Context
from paralign.errors import WorkerFailed
from paralign.model import ALIGNED, DIVERGED, ERROR, StageResult
from paralign.registry import BY_NAME
from paralign.run import inputs as tensors
from paralign.run.kinds_of_inputs import Kind, kinds
from paralign.run.process import Process
from paralign.run.recorder import both
from paralign.stages import run as run_stage
from paralign.stages.forward import moved_weights
from paralign.verification import constant_buffers, followed_tables, longer_inputs, plain_pass, randomness, tampering
from paralign.verification.case import Case, read_case
from paralign.verification.certifying import Changes, Seen, certify, files_below
from paralign.verification.commitment import Committed, Turn, Waiting
from paralign.verification.drawn_inputs import SEEDS, at_length, draw_for, draw_set
from paralign.verification.outside import Outside
from paralign.worker.process.deeds import FRAMEWORKS
from paralign.worker.protocol import Describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.capture import Capture
    from paralign.verification.certificate import Certificate


#: rounds of drawn weights and inputs
ROUNDS = 3

#: sets of inputs that the forward pass of a round is judged on, one after the other in one process
DRAWS = 8


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
    case = read_case(port, specification)
    case.kinds, case.sizes, case.tables = kinds(draws - 1), sizes, tables
    guarded = [case.specification, case.package, *case.adapters.values()]
    before, own = tampering.fingerprints(guarded), tampering.fingerprints([case.port], tampering.OF_A_PORT)
    began = time.time()
    seen, beside = [], Outside()
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        size = sizes[number % len(sizes)] if sizes else None
        moved = bool(number % 2)
        asked = moved or (tables and number == rounds - 1)
        done = partial(beside.add, began=began, own=own)
        seen.append(_round(case, done, size, moved=moved, asked=asked, last=number == rounds - 1))
        if seen[-1].tampering:
            break
    plain = plain_pass.Outcome()
    if all(result.verdict == ALIGNED for one in seen for result in one.results) and not seen[-1].tampering:
        plain = plain_pass.perform(case, seen[-1].plain)
    found = [t for one in seen for t in one.tampering] + tampering.changed(before, tampering.fingerprints(guarded))
    after = tampering.fingerprints([case.port], tampering.OF_A_PORT)
    found += [t for one in seen for t in tampering.rewritten(own, files_below(case.port, one.files), after)] + plain.tampering
    return certify(case, seen, list(dict.fromkeys(found)), before, sizes, beside, plain)


def _round(case: Case, done: Callable[[list[Capture], set[str]], None], size: int | None, *, moved: bool, asked: bool, last: bool) -> Seen:
    """One set of weights, and drawn inputs for each stage; fresh processes and folders.

    ``done`` takes the port's captures, and the folders of those that it was handed, while they are there.
    Where ``moved``, parameters that are constant as constructed (a normalisation's) are moved by noise: a port may leave them out.
    Where ``asked``, the port is asked of tables in the end. Of the ``last`` round is kept what a plain pass needs.
    """
    with ExitStack() as stack:
        own, other = (Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paralign-"))) for _ in range(2))
        context, candidate = _context(case, own, other, stack)
        changes = Changes()
        kept = _Kept(case, candidate, wanted=last)
        results = list(_stages(case, (context, candidate.turn), own, size, changes, moved=moved, asked=asked, kept=kept))
        folders = [case.specification, case.project.reference.root, own]
        frameworks = FRAMEWORKS - case.forbidden
        seen = tampering.of_captures(candidate.captures, folders, candidate.handed, case.forbidden, frameworks)
        seen += tampering.of_code(candidate.code, case.port, frameworks)
        done(candidate.captures, candidate.handed)
        files = {file: known for capture in candidate.captures for file, known in capture.manifest.files.items()}
        versions = {side: about.versions for side, about in context.about.items()}
    return Seen(results, seen, files, versions, changes, kept.watched)


@dataclass
class _Kept:
    """What a plain pass needs, read from each stage while its captures are there."""

    case: Case
    candidate: Committed
    wanted: bool
    watched: plain_pass.Watched | None = None

    def keep(self, context: Context, result: StageResult) -> None:
        """Keep what an aligned stage has watched."""
        if not self.wanted or result.verdict != ALIGNED:
            return
        if result.name == "forward":
            self.watched = plain_pass.outputs_of(self.case, context, self.candidate)
        elif result.name == "backward" and self.watched is not None:
            plain_pass.gradients_of(context, self.candidate, self.watched)


def _context(case: Case, own: Path, other: Path, stack: ExitStack) -> tuple[Context, Committed]:
    """Both sides, each with a folder of its own; the reference waits for the port."""
    project, turn, seed = case.project, Turn(), secrets.randbelow(SEEDS)
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
    case: Case,
    sides: tuple[Context, Turn],
    own: Path,
    size: int | None,
    changes: Changes,
    *,
    moved: bool,
    asked: bool,
    kept: _Kept,
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
        draw_for(case, context, own, "weights", size)
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
            draw_for(case, context, own, name, size)
            results[name] = _run(name, context)
            kept.keep(context, results[name])
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


def _ask_of_tables(case: Case, sides: tuple[Context, Turn], own: Path, size: int | None, changes: Changes) -> None:
    """Whether the port follows tables of several values.

    The last of a round, as weights stay moved.
    """
    context, turn = sides
    turn.free = True  # as below: these inputs are not judged
    effects = followed_tables.reacting(context, changes.moved)
    turn.free = False

    def draw(number: int) -> Capture:
        place = own / f"inputs-tables-{number}"
        return tensors.save(place, "inputs", draw_set(case, "inputs", at_length(case.project.inputs, size), Kind.SPECIFIED))

    asked = [followed_tables.ask(context, effects.acting, draw), followed_tables.Tables(unasked=effects.unknown)]
    changes.tables = followed_tables.together(asked)


def _move_parameters(context: Context) -> None:
    """Move parameters that are still constant, as zeros hide the tables before them."""
    parameters = moved_weights.movable(context, single=True)
    if parameters:
        context.weights = moved_weights.load(context, parameters)


def _move(context: Context, turn: Turn, changes: Changes) -> None:
    """Move what is constant as constructed by noise, the same on both sides."""
    parameters = moved_weights.movable(context, single=True)
    turn.free = True  # the reference's passes are no answers: inputs of theirs are not judged
    buffers = constant_buffers.movable(context, parameters)
    turn.free = False
    changes.moved = set(buffers)
    if parameters or buffers:
        context.weights = moved_weights.load(context, {**parameters, **buffers})


def _judge_longer(case: Case, context: Context, own: Path, result: StageResult) -> int | None:
    """Judge a set of inputs whose first axis is much longer than those that were named.

    Gives the length; None where none was drawn.
    """
    first = context.inputs.select(name="inputs")[0].shape[0] if context.inputs is not None else 1
    length = longer_inputs.drawn_length(max(case.sizes), longer_inputs.elements_of(context, first))
    if length is None:
        result.warnings.append("no first axis well above the greatest of --sizes was drawn: it would take too much memory")
        return None

    def draw(length: int) -> Capture:
        return tensors.save(
            own / "inputs-longer", "inputs", draw_set(case, "inputs", at_length(case.project.inputs, length), Kind.SPECIFIED)
        )

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
