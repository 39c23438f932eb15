"""``convert code --prove``: an entry is run once, its calls are made again on both sides."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.api.opened_project import without_log
from paralign.api.output_folder import make_folders
from paralign.checking import given_tensors, sides
from paralign.errors import UsageError, WorkerFailed
from paralign.port.proofs import proving_code
from paralign.port.proofs.proof_entries import package_name, recorded_definitions, root_of
from paralign.port.proofs.proving import dotted
from paralign.port.sources.texts import read
from paralign.run.project import Project, SideSettings
from paralign.stages.weights import stage as weights
from paralign.worker.protocol import Again, AgainTold, Describe, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.port.edits.ledger import Ledger
    from paralign.port.proofs.proof_entries import EntryPoint
    from paralign.port.proofs.proving import Proven
    from paralign.port.proofs.proving_code import Evidence
    from paralign.worker.protocol import Definition, MadeObject

#: models that are built again: each takes a new process on both sides, some seconds
MODELS = 32

#: a side's module where no model is asked for
_NO_MODEL = "def build_model():\n    raise NotImplementedError\n"


@dataclass(frozen=True)
class Conversion:
    """A source and what became of it.

    Args:
        source: the file or folder that was converted.
        destination: what was written.
        ledger: of the conversion.
        python: the interpreter of the port; None: the one that runs paralign.
        reference_python: that of the original; None: as well.
        timeout: seconds that the entry may take, and the calls that are made again.
    """

    source: Path
    destination: Path
    ledger: Ledger
    python: str | None = None
    reference_python: str | None = None
    timeout: float = 600.0

    def texts(self) -> dict[str, str]:
        """The text of each file of the source, by the path that the ledger names it with."""
        home = self.source if self.source.is_dir() else self.source.parent
        return {each.path: read(home / each.path).text for each in self.ledger.files if each.path.endswith(".py")}


def prove_code(made: Conversion, entry: EntryPoint, progress: Callable[[str], None] = lambda _: None) -> Proven:
    """Hold each function and class of a source against its conversion.

    The user's entry is run once, by the original's interpreter. What it calls is called again by itself, in float64, in new processes, on
    what the entry gave to it.

    Args:
        made: what was converted.
        entry: what is run.
        progress: is told what is done.

    Raises:
        WorkerFailed: the entry fails, or takes longer than the time limit.
        UsageError: the entry is not there, or the project has no inputs.
        EnvironmentUnavailable: an interpreter is not there.
    """
    sources = made.texts()
    package = package_name(made.source)
    defined = recorded_definitions(sources, made.source)
    with tempfile.TemporaryDirectory(prefix="paralign-") as name:
        run = _Run(made, Path(name).resolve(), defined, progress)
        try:
            told = run.recorded(entry)
        except WorkerFailed as failure:
            raise without_log(failure) from failure
        modules = {dotted(path, package): path for path in sources}
        evidence = proving_code.Evidence(Entry.answer(told), modules, defined)
        run.make_again(told, evidence)
        return proving_code.judge(evidence, made.ledger, sources, package, entry.target if entry.kind == "function" else "")


class _Run:
    """The processes of one proof, each with a folder of its own."""

    def __init__(self, made: Conversion, folder: Path, defined: list[Definition], progress: Callable[[str], None]) -> None:
        self._made, self._folder, self._defined, self._progress = made, folder, defined, progress
        self._root = root_of(made.source).resolve()
        self._port, self._beside = _port_root(made, folder)

    def recorded(self, entry: EntryPoint) -> Capture:
        """Run the entry, and give the calls that it made."""
        self._progress("running the entry")
        with self._sides("entry", _NO_MODEL, _NO_MODEL, entry.project) as context:
            values = {} if entry.project is None else {"inputs": self._inputs(context, entry.project)}
            return context.reference.record("entry", Entry(entry.kind, entry.target, self._defined), values)

    def _inputs(self, context: Context, project: Project) -> Capture:
        about = Describe.answer(context.reference.record("about", Describe()))
        context.about = {"reference": about, "candidate": about}
        found, _ = given_tensors(project, context, self._folder / "entry")
        if found is None:
            raise UsageError("the project has no inputs", where=str(project.path), hint="set [inputs], or define inputs() in the reference")
        return found

    def make_again(self, told: Capture, evidence: Evidence) -> None:
        """Make all calls again, and take what they come to."""
        due = {call.name for call in evidence.told.calls if not call.problem and not self._is_of_model(call.object_, evidence)}
        if due:
            self._progress("functions by themselves")
            self._functions(told, evidence, due)
        for count, model in enumerate(evidence.models()):
            if evidence.is_held(model):
                continue
            names = {call.name for call in evidence.told.calls if call.object_ == model.number}
            if count >= MODELS:
                evidence.fail(names, model.number, f"more than {MODELS} models were built")
                continue
            self._progress(model.class_)
            self._model(told, evidence, model, names)

    @staticmethod
    def _is_of_model(number: int, evidence: Evidence) -> bool:
        return bool(number) and evidence.told.objects[number - 1].model

    def _functions(self, told: Capture, evidence: Evidence, due: set[str]) -> None:
        """Make calls of functions again: all at once, or name by name where that fails."""
        with self._sides("functions", _NO_MODEL, _NO_MODEL) as context:
            whole = self._take(context, "all", Again(definitions=self._defined), told, evidence)
            for count, name in enumerate(sorted(due) if whole else []):
                reason = self._take(context, f"of-{count}", Again(names=[name], definitions=self._defined), told, evidence)
                if reason:
                    evidence.fail({name}, 0, reason)

    def _take(self, context: Context, name: str, order: Again, told: Capture, evidence: Evidence) -> str:
        """Have calls made again, and take what they come to; gives why a side failed."""
        try:
            if order.object_:
                reference, candidate = context.record_both(name, order, {"entry": told})
            else:
                reference = context.reference.record(name, order, {"entry": told})
                candidate = context.candidate.record(name, replace(order, left_out=not_asked(Again.answer(reference))), {"entry": told})
        except WorkerFailed as failure:
            return _of_failure(failure)
        evidence.take(reference, candidate, order.object_)
        return ""

    def _model(self, told: Capture, evidence: Evidence, model: MadeObject, names: set[str]) -> None:
        original = _built_text(told.path.absolute(), model.number, "torch", stated=True)
        port = _built_text(told.path.absolute(), model.number, "paddle", stated=False)
        with self._sides(f"model-{model.number}", original, port) as context:
            reason = _carried(context) or self._take(context, "calls", Again(model.number, definitions=self._defined), told, evidence)
        if reason:
            evidence.fail(names, model.number, reason)

    @contextmanager
    def _sides(self, name: str, reference: str, candidate: str, project: Project | None = None) -> Iterator[Context]:
        """Both sides, each with a module of this text, or a project's reference."""
        folder = self._folder / name
        make_folders(folder, "workers", "captures")
        settings = []
        for side, text, root, python, path in (
            ("reference", reference, self._root, self._made.reference_python, ""),
            ("candidate", candidate, self._port, self._made.python, self._beside),
        ):
            module = folder / f"paralign_{side}.py"
            module.write_text(text, encoding="utf-8")
            environment = {"PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))} if path else {}
            framework = "torch" if side == "reference" else "paddle"
            settings.append(SideSettings(module, root, framework, python or sys.executable, env=environment))
        first = settings[0] if project is None else project.reference
        home = self._root if project is None else project.folder
        with sides(Project(home / "paralign.toml", first, settings[1], timeout=self._made.timeout), folder, fresh=True) as context:
            yield context


def not_asked(told: AgainTold) -> list[str]:
    """Calls that the original cannot make by itself, which the port is not asked for.

    Its loaders may wait for ever where a data set raises.
    A call that changed something before it raised is asked for: later calls are given that.
    """
    return [f"{each.name}#{each.number}" for each in told.calls if each.problem and not each.left]


def _carried(context: Context) -> str:
    """Carry the weights of a model over; gives why that cannot be done, '' where it was."""
    try:
        for side, recorder in (("reference", context.reference), ("candidate", context.candidate)):
            context.about[side] = Describe.answer(recorder.record("about", Describe()))
        done = weights.run(context)
    except WorkerFailed as failure:
        return _of_failure(failure)
    complete = context.plan is not None and context.plan.complete
    return "" if complete else f"its weights could not be carried over: {done.verdict}"


def _built_text(path: Path, number: int, framework: str, *, stated: bool) -> str:
    return (
        "def build_model():\n    from paralign.worker.passes.again import build\n\n"
        f"    return build({str(path)!r}, {number}, {framework!r}, stated={stated})\n"
    )


def _of_failure(failure: WorkerFailed) -> str:
    side = "the original" if failure.side == "reference" else "the port"
    lines = failure.message.strip().splitlines() or [""]
    return f"{side} fails: {failure.type}: {lines[0]}"


def _port_root(made: Conversion, folder: Path) -> tuple[Path, str]:
    """Where imports of the port start from, and a further folder of its program.

    Its modules are imported by the names of the original's: where it is called otherwise, a link has the name.
    """
    source, port = made.source.resolve(), made.destination.resolve()
    if source.is_dir() and not package_name(source):
        return port, ""
    if source.name == port.name:
        return port.parent, ""
    link = folder / "port" / source.name
    link.parent.mkdir()
    link.symlink_to(port, target_is_directory=port.is_dir())
    return link.parent, "" if port.is_dir() else str(port.parent)
