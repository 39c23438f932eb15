"""What a proof of converted code runs, and the definitions whose calls are recorded."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.errors import UsageError, quoted
from paralign.port.drafts.drafting import Model, check_module
from paralign.port.proofs.proving import dotted
from paralign.run.project import FILE, read
from paralign.worker.protocol import Definition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paralign.run.project import Project

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

#: decorators that say what a method is given first
_GIVEN = {"staticmethod": "static", "classmethod": "classmethod"}

#: decorators of what is looked up, not called
_LOOKED_UP = {"property", "cached_property", "setter", "getter", "deleter"}

HINT = "--entry module:function, --entry script.py, or --entry paralign.toml of a project"


@dataclass(frozen=True)
class EntryPoint:
    """What is run: a function, a script to its end, or the model of a project.

    ``target``: ``module:function`` or the path of the script.
    """

    kind: str
    target: str
    project: Project | None = None


def root_of(source: Path) -> Path:
    """The folder that the imports of a source start from."""
    within = source.is_dir() and (source / "__init__.py").is_file()
    if source.is_dir() and not within:
        return source
    return source.absolute().parent


def package_name(source: Path) -> str:
    """The package that a source is; '' where it is none."""
    if source.is_dir() and (source / "__init__.py").is_file():
        return source.resolve().name
    return ""


def entry_of(text: str, source: str | Path) -> EntryPoint:
    """Read ``module:function``, the path of a script, or that of a project.

    A path is looked for from the working directory, then from the source. Nothing is run.

    Raises:
        UsageError: it is none of these, or not there.
    """
    source = Path(source)
    if text.endswith((".py", ".toml")):
        path = _found(text, source)
        if path.suffix == ".py":
            _check_guarded(path, source)
            return EntryPoint("script", str(path))
        project = read(path)
        if project.reference.framework not in ("", "torch"):
            raise UsageError("the reference of the project is none of PyTorch's", where=str(path), hint=HINT)
        return EntryPoint("model", "build_model", project)
    if (Path(text) / FILE).is_file():
        return entry_of(str(Path(text) / FILE), source)
    if not _FUNCTION.fullmatch(text):
        raise UsageError(f"{quoted(text)} is no entry", hint=HINT)
    module, _, name = text.partition(":")
    check_module(root_of(source), Model(module, (name,), ""), source, "--entry module:function")
    return EntryPoint("function", text)


def _check_guarded(path: Path, source: Path) -> None:
    """Refuse a script of the source that would do its work again in every process.

    Raises:
        UsageError: it does more than define at its top level.
    """
    if path not in (source.resolve(), *[each.resolve() for each in (source.rglob("*.py") if source.is_dir() else ())]):
        return
    line = _first_act(path, root_of(source))
    if line:
        raise UsageError(
            "the script does its work at its top level: each process that calls its functions again would do it again",
            where=f"{path}:{line}",
            hint='put it under `if __name__ == "__main__":`',
        )


def _first_act(path: Path, root: Path) -> int:
    """The line of a top level's first loop or call of own functions; 0 of none."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, RecursionError):  # running it tells
        return 0
    own = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in body:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module and _is_within(root, path.parent, node.module):
            own |= {alias.asname or alias.name for alias in node.names}
    return next((node.lineno for node in body if _acts(node, own)), 0)


def _is_within(root: Path, beside: Path, module: str) -> bool:
    first = module.partition(".")[0]
    return any((home / f"{first}.py").is_file() or (home / first / "__init__.py").is_file() for home in (root, beside))


def _acts(node: ast.stmt, own: set[str]) -> bool:
    """Whether a statement of a top level loops, or calls one of these names."""
    if isinstance(node, ast.For | ast.While):
        return True
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or (isinstance(node, ast.If) and _is_guard(node.test)):
        return False
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return any(isinstance(each, ast.Name) and each.id in own for each in calls)


def _is_guard(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(test))


def _found(text: str, source: Path) -> Path:
    for path in (Path(text), root_of(source) / text):
        if path.is_file():
            return path.resolve()
    raise UsageError("the entry is not there", where=text, hint=HINT)


def recorded_definitions(sources: Mapping[str, str], source: Path) -> list[Definition]:
    """All functions, classes and methods of a source's top levels; of a class's methods too."""
    home = source if source.is_dir() else source.parent
    return [
        each
        for name, text in sources.items()
        if name.endswith(".py")
        for each in _of_file(str((home / name).resolve()), dotted(name, package_name(source)), text)
    ]


def _of_file(path: str, module: str, text: str) -> Iterator[Definition]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _definition(path, module, node, node.name, "function")
        elif isinstance(node, ast.ClassDef):
            yield _definition(path, module, node, node.name, "class")
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield _definition(path, module, inner, f"{node.name}.{inner.name}", _kind(inner))


def _definition(path: str, module: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str, kind: str) -> Definition:
    first = min([node.lineno, *[each.lineno for each in node.decorator_list]])
    return Definition(path, module, name, first, node.lineno, node.end_lineno or node.lineno, kind)


def _kind(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """How a method is called; ``other`` where it is only looked up."""
    for each in node.decorator_list:
        name = each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
        if name in _GIVEN:
            return _GIVEN[name]
        if name in _LOOKED_UP:
            return "other"
    return "method"
