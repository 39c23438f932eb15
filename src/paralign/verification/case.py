"""What is judged: a specification read, and what could not be judged refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.adapters import packages
from paralign.capture.bounds import checked_path, near
from paralign.errors import UsageError
from paralign.run.project import read
from paralign.worker.process.deeds import FRAMEWORKS

if TYPE_CHECKING:
    from paralign.run.kinds_of_inputs import Kind
    from paralign.run.project import Project


#: stages that a judgement can ask of a port: those whose answers follow from drawn weights and inputs alone
STAGES = ("weights", "forward", "backward")


@dataclass
class Case:
    """What is judged: the specification as a project, and the port's folder.

    Also the judge's own files, the packages of adapters that the processes are told of, and modules that the port may not import.
    """

    project: Project
    specification: Path
    port: Path
    package: Path
    forbidden: set[str]
    kinds: tuple[Kind, ...] = ()
    sizes: tuple[int, ...] = ()
    tables: bool = False
    adapters: dict[str, Path] = field(default_factory=dict)


def read_case(port: Path, specification: Path) -> Case:
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
    return Case(project, folder, port, Path(__file__).parents[1], forbidden - _modules(port), adapters=packages.roots())


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
