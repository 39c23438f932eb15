"""A clean copy of a finished port.

Without the code that checks it, without the reference, without results.
"""

from __future__ import annotations

import ast
import fnmatch
import os
import shutil
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import checked_path, near
from paralign.errors import UsageError, unwritten
from paralign.run.project import FILE
from paralign.run.project import read as read_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Reason(Enum):
    """Why a file is left out."""

    PROJECT = "the project file of the check"
    SIDE = "a side's module: what paralign calls"
    CHECK = "check code: imports reprod_log"
    REFERENCE = "the reference"
    RESULT = "a result of checks"
    INPUT = "inputs of checks"
    CACHE = "a cache, an environment or version control"
    LINK = "a link that leads out of the folder, or no file on a disk"
    ASKED = "named by --leave-out"


#: folders that hold nothing of a program's own
_CACHES = frozenset(
    {
        "__pycache__",
        ".git",
        ".hg",
        ".svn",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".ipynb_checkpoints",
        ".tox",
        ".venv",
        ".idea",
        ".vscode",
    }
)
#: files that checks write or read, by the names that the guides and paralign give them
_BY_NAME = {
    **dict.fromkeys(
        ("*_ref.npy", "*_paddle.npy", "*_torch.npy", "*_pytorch.npy", "train_align_*.npy", "checkpoints.tar.gz"), Reason.RESULT
    ),
    **dict.fromkeys(("*_diff.log", "*_diff_log.txt", "*_diff.txt"), Reason.RESULT),
    **dict.fromkeys(("fake_data*.npy", "fake_label*.npy"), Reason.INPUT),
}
#: modules whose import makes a file one of checks
_CHECKING = ("reprod_log", "paralign.compat")


@dataclass(frozen=True)
class Left:
    """A file or folder that is left out, relative to the source."""

    path: Path
    reason: Reason


@dataclass(frozen=True)
class Fault:
    """A copied file that needs what is left out, or a framework that the port shall not need.

    ``breaks``: the copy would not run.
    """

    path: Path
    line: int
    what: str
    breaks: bool


@dataclass
class CleanCopy:
    """What a copy will hold: ``root`` is the folder of the port, ``files`` are relative to it."""

    root: Path
    files: list[Path] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def breaking(self) -> list[Fault]:
        """What would keep the copy from running."""
        return [fault for fault in self.faults if fault.breaks]


@dataclass(frozen=True)
class _Known:
    """What a project file says of its folders and files, as absolute paths.

    ``others`` are folders that imports may lead to as well, ``framework`` is the one that the port shall not need,
    ``shared`` says that both sides have one folder.
    """

    root: Path
    paths: dict[Path, Reason]
    others: list[Path] = field(default_factory=list)
    framework: str = ""
    shared: bool = False


def plan(source: str | Path, *, keep: Sequence[str] = (), leave_out: Sequence[str] = ()) -> CleanCopy:
    """What a clean copy will hold; nothing is written.

    Args:
        source: the folder of a ``paralign.toml``, whose candidate's folder is copied; without one, the folder itself.
        keep: patterns of paths, relative to the port's folder, that are copied whatever speaks against it.
        leave_out: patterns of paths that are left out.

    Raises:
        UsageError: there is no such folder, or the reference's folder holds the port.
    """
    folder = checked_path(source)
    if not folder.is_dir():
        raise UsageError(
            f"there is no such folder{near(source)}",
            where=str(source),
            hint="name the folder of paralign.toml, or of the port",
        )
    known = _known(folder.resolve())
    found = CleanCopy(known.root)
    if known.shared:
        found.notes.append(
            "the reference and the port have one folder: files of the reference are copied too, but for those of --leave-out"
        )
    for path in _walk(known, found, keep, leave_out):
        found.files.append(path)
    found.files.sort()
    for path in found.files:
        if path.suffix == ".py":
            found.faults += _faults(path, found, known)
    return found


def _known(folder: Path) -> _Known:
    """What is no part of the port, by the project file."""
    if not (folder / FILE).is_file():
        return _Known(folder, {})
    project = read_project(folder)
    root, reference = project.candidate.root.resolve(), project.reference.root.resolve()
    paths = {
        folder / FILE: Reason.PROJECT,
        project.candidate.module.resolve(): Reason.SIDE,
        project.reference.module.resolve(): Reason.SIDE,
        project.out.resolve(): Reason.RESULT,
    }
    if project.rules is not None:
        paths[project.rules.resolve()] = Reason.PROJECT
    if reference != root and reference not in root.parents:
        paths[reference] = Reason.REFERENCE
    elif reference != root:
        raise UsageError(
            "the reference's folder holds the port: nothing tells them apart",
            where=f"{folder / FILE}: [reference] root",
            hint="name the reference's own folder as its root",
        )
    other = project.reference.framework if project.reference.framework != project.candidate.framework else ""
    return _Known(root, paths, [folder, reference], other, shared=reference == root)


def _walk(known: _Known, found: CleanCopy, keep: Sequence[str], leave_out: Sequence[str]) -> Iterator[Path]:
    """The files to copy, relative to the port's folder; what is left out is noted."""
    for folder, inner, names in os.walk(known.root):
        here = Path(folder)
        for name in sorted(inner):
            reason = _of_folder(here / name, known, leave_out)
            if reason is not None and not _matches((here / name).relative_to(known.root), keep):
                inner.remove(name)
                found.left.append(Left((here / name).relative_to(known.root), reason))
        inner.sort()
        for name in sorted(names):
            path = (here / name).relative_to(known.root)
            reason = None if _matches(path, keep) else _of_file(here / name, known, leave_out)
            if reason is None:
                yield path
            else:
                found.left.append(Left(path, reason))


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(str(path), pattern.rstrip("/")) for pattern in patterns)


def _of_folder(path: Path, known: _Known, leave_out: Sequence[str]) -> Reason | None:
    """Why a folder is left out as a whole; None where it is not."""
    if _matches(path.relative_to(known.root), leave_out):
        return Reason.ASKED
    if path.name in _CACHES or (path / "pyvenv.cfg").is_file():
        return Reason.CACHE
    if path.is_symlink():
        return Reason.LINK
    if path.resolve() in known.paths:
        return known.paths[path.resolve()]
    if (path / "report.json").is_file() and (path / "captures").is_dir():
        return Reason.RESULT
    return None


def _of_file(path: Path, known: _Known, leave_out: Sequence[str]) -> Reason | None:
    """Why a file is left out; None where it is not."""
    real = path.resolve()
    if _matches(path.relative_to(known.root), leave_out):
        return Reason.ASKED
    if real in known.paths:
        return known.paths[real]
    if not real.is_file() or known.root not in real.parents:  # a link; a pipe, a socket, a device
        return Reason.LINK
    if path.suffix in (".pyc", ".pyo"):
        return Reason.CACHE
    named = next((each for pattern, each in _BY_NAME.items() if fnmatch.fnmatchcase(path.name, pattern)), None)
    if named is not None:
        return named
    checks = path.suffix == ".py" and any(_is_checking(name) for _, name, _ in _imports(path))
    return Reason.CHECK if checks else None


def _is_checking(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in _CHECKING)


def _imports(path: Path) -> list[tuple[int, str, int]]:
    """Line, dotted name and level of every import of a file; none where it is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: what the parser says of too much nesting
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.append((node.lineno, module, node.level))
            found += [(node.lineno, f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names]
    return found


def _faults(path: Path, found: CleanCopy, known: _Known) -> Iterator[Fault]:
    """Imports of a copied file that lead to what is left out.

    Also to the reference's framework, or to paralign.
    """
    left = {(found.root / each.path).resolve() for each in found.left} | set(known.paths)
    said: set[tuple[int, str]] = set()
    for line, name, level in _imports(found.root / path):
        top = name.partition(".")[0]
        for target in _targets(known, found.root / path, name, level):
            gone = next((each for each in left if each == target or each in target.parents), None)
            if gone is not None and (line, gone.name) not in said:
                said.add((line, gone.name))
                yield Fault(path, line, f"imports {name or '.'}, which is left out", breaks=True)
        if level == 0 and top in {known.framework, "paralign"} - {""} and (line, top) not in said:
            said.add((line, top))
            yield Fault(path, line, f"imports {top}", breaks=False)


def _targets(known: _Known, path: Path, name: str, level: int) -> list[Path]:
    """The files that an import may mean: of the port, else of the reference."""
    parts = [part for part in name.split(".") if part]
    bases = [known.root, path.parent, *known.others]
    if level:
        bases = [path.parents[level - 1]] if level <= len(path.parents) else []
    for base in bases:
        module = base.joinpath(*parts)
        places = (module.with_suffix(".py") if parts else module / "__init__.py", module / "__init__.py")
        found = [place.resolve() for place in places if place.is_file()]
        if found:
            return found
    return []


def place_for(copy: CleanCopy, destination: str | Path) -> Path:
    """The folder that a copy may be written into; nothing is written.

    Raises:
        UsageError: it is a file, lies in the source, or holds one of the files.
    """
    target = checked_path(destination).resolve()
    if target.is_file():
        raise UsageError("this is a file", where=str(destination), hint="name a folder, new or empty")
    if target == copy.root or copy.root in target.parents:
        raise UsageError("the copy would lie in the port's own folder", where=str(target), hint="name a folder outside of it")
    there = [path for path in copy.files if os.path.lexists(target / path)]
    if there:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(f"{there[0]}{more} would be overwritten", where=str(target), hint="name another folder; nothing is replaced")
    return target


def write(copy: CleanCopy, destination: str | Path) -> int:
    """Write a copy; files that are there are never replaced, and nothing is deleted.

    Returns:
        The bytes that were written.

    Raises:
        UsageError: the copy would not run, or the destination cannot be its place.
        WriteFailed: a file cannot be written; those before it stay.
    """
    if copy.breaking:
        raise UsageError(
            "a copied file needs one that is left out", where=str(copy.breaking[0].path), hint="change it, or --keep what it needs"
        )
    target = place_for(copy, destination)
    written = 0
    for path in copy.files:
        place = target / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with (copy.root / path).open("rb") as source, place.open("xb") as file:
                shutil.copyfileobj(source, file)
            shutil.copymode(copy.root / path, place)
            written += place.stat().st_size
        except OSError as fault:
            raise unwritten(place, fault) from fault
    return written
