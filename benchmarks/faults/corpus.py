"""What is planted where: faults and harmless variations as edits of the ports' text, and the lines at which they are."""

from __future__ import annotations

import ast
import difflib
import importlib
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
#: what a fault touches, in the order in which a check comes to it
STAGES = ("data", "forward", "backward", "update", "random")


@dataclass(frozen=True)
class Edit:
    """One piece of text, which occurs once in its file, and what stands there instead."""

    old: str
    new: str
    file: str = "candidate.py"


@dataclass(frozen=True)
class Plant:
    """A fault (with a stage) or a harmless variation (without).

    ``at`` is text of the line that *runs* what was changed, where the edit is elsewhere: a layer is built in one line and called in
    another, and either is the true line. ``weights`` says for a renamed tensor which ones it holds, joined along the last axis.
    ``named``: the weights are carried over by their names beforehand, because the mistake is that names mean something else, and
    paralign's own mapping would find the assignment that makes it none. ``given`` makes other inputs of the program's own.
    """

    name: str
    what: str
    edits: tuple[Edit, ...]
    stage: str = ""
    bugs: str = ""
    at: str = ""
    program: str = ""
    weights: dict[str, tuple[str, ...]] = field(default_factory=dict)
    named: bool = False
    given: Callable[[Any], Any] | None = None
    #: lines of the port that are true ones too
    lines: frozenset[int] = frozenset()

    @property
    def id(self) -> str:
        """Program and name."""
        return f"{self.program}/{self.name}"

    @property
    def harmless(self) -> bool:
        """Whether nothing may be reported."""
        return not self.stage


def fault(
    stage: str,
    name: str,
    bugs: str,
    what: str,
    old: str,
    new: str,
    *,
    at: str = "",
    file: str = "candidate.py",
    more: tuple[Edit, ...] = (),
    named: bool = False,
) -> Plant:
    """A mistake in one place; ``more`` are edits that it needs elsewhere (an import), which are no true lines."""
    if stage not in STAGES:
        raise ValueError(f"{name}: no stage {stage!r}")
    return Plant(name, what, (Edit(old, new, file), *more), stage, bugs, at, named=named)


def harmless(
    name: str,
    what: str,
    *edits: tuple[str, str] | Edit,
    weights: dict[str, tuple[str, ...]] | None = None,
    given: Callable[[Any], Any] | None = None,
    bugs: str = "",
) -> Plant:
    """A change that means the same; or inputs on which tools have called right ports wrong."""
    return Plant(name, what, tuple(e if isinstance(e, Edit) else Edit(*e) for e in edits), bugs=bugs, weights=weights or {}, given=given)


def programs() -> list[str]:
    """The names of the programs."""
    return sorted(path.parent.name for path in PROGRAMS.glob("*/plants.py"))


def plants(program: str) -> list[Plant]:
    """All that is planted in a program."""
    module = load(program, "plants")
    found: list[Plant] = [Plant(**{**vars(plant), "program": program}) for plant in module.PLANTS]
    names = [plant.name for plant in found]
    if len(set(names)) != len(names):
        raise ValueError(f"{program}: a name occurs twice: {sorted(n for n in names if names.count(n) > 1)}")
    return found


def load(package: str, module: str, folder: Path = PROGRAMS) -> ModuleType:
    """Import a module of a program's package; ``given`` and this module can be imported from it."""
    for path in (str(HERE), str(folder)):
        if path not in sys.path:
            sys.path.append(path)
    importlib.invalidate_caches()
    return importlib.import_module(f"{package}.{module}")


def plant_copy(plant: Plant, folder: Path) -> Path:
    """A copy of the program's port with the plant in it, as a package below ``folder``.

    Raises:
        ValueError: what is to be replaced does not occur exactly once.
    """
    target = folder / f"{plant.program}_{plant.name}".replace("-", "_")
    shutil.copytree(PROGRAMS / plant.program, target, ignore=shutil.ignore_patterns("__pycache__", "plants.py"))
    for edit in plant.edits:
        path = target / edit.file
        text = path.read_text(encoding="utf-8")
        if text.count(edit.old) != 1:
            raise ValueError(f"{plant.id}: {edit.old!r} occurs {text.count(edit.old)} times in {edit.file}")
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return target


def truth(plant: Plant, target: Path) -> set[str]:
    """The true lines, as ``file:line``: what the first edit changed (around a deletion, its neighbours) and where that runs."""
    if not plant.edits:
        return set()
    edit = plant.edits[0]
    path = target / edit.file
    now = path.read_text(encoding="utf-8").splitlines()
    before = (PROGRAMS / plant.program / edit.file).read_text(encoding="utf-8").splitlines()
    lines = whole_statements("\n".join(now), {line for line in changed(before, now) if not _elsewhere(plant, now[line - 1])})
    found = {f"{path}:{line}" for line in lines | plant.lines}
    for other in target.glob("*.py") if plant.at else ():
        text = other.read_text(encoding="utf-8").splitlines()
        found |= {f"{other}:{number}" for number, line in enumerate(text, 1) if plant.at in line and other.name != "reference.py"}
    if plant.at and len(found) == len(lines):
        raise ValueError(f"{plant.id}: no line holds {plant.at!r}")
    return found


def _elsewhere(plant: Plant, line: str) -> bool:
    """Whether a changed line belongs to an edit other than the first."""
    return any(line.strip() and line.strip() in edit.new and line.strip() not in plant.edits[0].new for edit in plant.edits[1:])


def statements(text: str) -> list[tuple[int, int]]:
    """First and last line of each statement that holds no other: a call is reported by one of its lines, whichever argument was edited."""
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.walk(ast.parse(text)) if isinstance(node, simple)]


def whole_statements(text: str, lines: set[int]) -> set[int]:
    """Lines, and all others of the statements that they are a part of."""
    return lines | {row for a, b in statements(text) if lines & set(range(a, b + 1)) for row in range(a, b + 1)}


def changed(before: list[str], now: list[str]) -> set[int]:
    """Numbers, from 1, of the lines of ``now`` that are new; of a deletion the lines on both sides, and the next of code there."""
    found: set[int] = set()
    for what, _, _, start, stop in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if what in ("replace", "insert"):
            found |= set(range(start + 1, stop + 1))
        elif what == "delete":
            code = [number for number, line in enumerate(now, 1) if line.strip() and not line.lstrip().startswith("#")]
            found |= {max(start, 1), min(start + 1, len(now))}
            found |= {max((n for n in code if n <= start), default=1), min((n for n in code if n > start), default=len(now))}
    return found
