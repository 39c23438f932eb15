"""``port``: a project of the given source and its conversion, ready for a check."""

from __future__ import annotations

import ast
import os
import re
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import checked_path
from paralign.dtypes import STORAGE
from paralign.errors import UsageError, did_you_mean, quoted, unwritten
from paralign.port.drafts import kept_edits
from paralign.port.drafts.converted import LEDGER, convert_code
from paralign.port.edits.ledger import Fate, FileFate, alike
from paralign.port.sources.texts import find, read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from paralign.port.drafts.refused_types import Function
    from paralign.port.edits.ledger import Ledger, Place

#: the folder of the converted tree in a project
PORT = "port"

#: the list of what is left, beside the project file
LEFT = "left.md"

_INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<shape>\d+(?:x\d+)*|scalar)(?::(?P<dtype>\w+))?(?::(?P<high>\d+))?")

#: what a model's arguments may be made of: data and calls of names, so that no text of a command line is a program
_ALLOWED = (
    ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.USub,
)  # fmt: skip


@dataclass(frozen=True)
class Model:
    """How both sides build their model: names of a module, and an expression over them."""

    module: str
    names: tuple[str, ...]
    expression: str


@dataclass(frozen=True)
class Draft:
    """A project that was written, and what became of every place of the source.

    ``kept`` are files that the user has edited since.
    """

    folder: Path
    ledger: Ledger
    source: Path
    kept: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The folder that the ledger's paths begin in."""
        port = self.folder / PORT
        if package_of(self) and self.source.is_dir():
            return port / self.source.name
        return port

    @property
    def ledger_name(self) -> str:
        """The ledger's file, from the project's folder."""
        name = LEDGER if self.source.is_dir() else f"{self.source.name}.{LEDGER}"
        return (self.home / name).relative_to(self.folder).as_posix()

    def shown(self, path: Path) -> str:
        """A file of the port as the ledger names it; '' of one elsewhere."""
        home = self.home.resolve()
        return path.relative_to(home).as_posix() if path.is_relative_to(home) else ""


def model_of(text: str) -> Model:
    """Read ``module:Class``, or with arguments ``module:Class(Config(width=4))``.

    ``module:build(classes=10)`` is read too.

    Raises:
        UsageError: it has another form.

    >>> model_of("pkg.net:Net(Config(width=-1))").names
    ('Net', 'Config')
    """
    module, colon, expression = text.partition(":")
    hint = "write --model package.module:Class, or with arguments package.module:Class(width=8, config=Config())"
    if not colon or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"{quoted(text)} names no model", hint=hint)
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{quoted(expression)} is no expression", hint=hint) from error
    if isinstance(tree, ast.Name):
        tree = ast.Call(tree, [], [])
    names: list[str] = []
    for node in ast.walk(tree):
        plain = isinstance(node, _ALLOWED) and not (isinstance(node, ast.Call) and not isinstance(node.func, ast.Name))
        if not plain:
            raise UsageError(f"{quoted(expression)} is more than calls of names with data", hint=hint)
        if isinstance(node, ast.Name) and node.id not in names:
            names.append(node.id)
    if not isinstance(tree, ast.Call):
        raise UsageError(f"{quoted(expression)} builds nothing", hint=hint)
    return Model(module, tuple(names), ast.unparse(ast.fix_missing_locations(tree)))


def inputs_of(texts: Sequence[str]) -> str:
    """The ``[inputs]`` of a project file for ``SHAPE``, ``NAME=SHAPE`` and the like.

    ``SHAPE:DTYPE`` and ``SHAPE:DTYPE:HIGH`` are the others.

    Raises:
        UsageError: another form, an unknown dtype, or some with names and some without.

    >>> print(inputs_of(["ids=2x8:int64:48"]))
    [inputs.ids]
    shape = [2, 8]
    dtype = "int64"
    high = 48
    <BLANKLINE>
    """
    found = [_input_of(text) for text in texts]
    named = [name for name, _ in found if name]
    if named and (len(named) < len(found) or len(set(named)) < len(named)):
        raise UsageError("inputs are given either all in order or all by different names", where=", ".join(texts))
    alone = "[inputs]" if len(found) == 1 else "[[inputs]]"
    tables = [[f"[inputs.{name}]" if name else alone, *lines, ""] for name, lines in found]
    return "\n".join("\n".join(table) for table in tables)


def _input_of(text: str) -> tuple[str, list[str]]:
    """The name of one input, '' without one, and the lines of its table.

    Raises:
        UsageError: another form, or an unknown dtype.
    """
    hint = "write --input 1x3x64x64, or --input ids=2x8:int64:48 for whole numbers below 48 given by keyword"
    match = _INPUT.fullmatch(text)
    if match is None:
        raise UsageError(f"{quoted(text)} is no input", hint=hint)
    dtype = match["dtype"] or "float32"
    if dtype not in STORAGE:
        raise UsageError(f"unknown dtype {quoted(dtype)}", hint=hint)
    shape = "" if match["shape"] == "scalar" else match["shape"].replace("x", ", ")
    lines = [f"shape = [{shape}]", f'dtype = "{dtype}"']
    if match["high"]:
        lines.append(f"high = {match['high']}")
    return match["name"] or "", lines


def draft(
    source: str | Path,
    destination: str | Path,
    model: str,
    inputs: Sequence[str],
    python: str | None = None,
    *,
    force: bool = False,
    refused: Collection[Function] = (),
) -> Draft:
    """Convert a source and write the project around it.

    Args:
        source: a Python file, a folder of them, or the folder of a package; it is read, and not changed.
        destination: a folder that is not there yet, or is empty.
        model: what both sides build, as :func:`model_of` reads it.
        inputs: what the model is called with, as :func:`inputs_of` reads it; none: the project gets no ``[inputs]``.
        python: the candidate's interpreter, whose Paddle is asked; None: the one that runs paralign.
        force: write into the folder of an earlier port; files that were edited since are kept.
        refused: functions in which Paddle has refused an operator of several types.

    Raises:
        UsageError: a wrong argument; the destination is not empty, or lies in the source; the source has no such module.
        WriteFailed: a file cannot be written.
        EnvironmentUnavailable: the interpreter does not answer.
    """
    source, target = checked_path(source), checked_path(destination)
    built, asked = model_of(model), inputs_of(inputs)
    there = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if there and not force:
        raise UsageError(
            "the destination is there already",
            where=str(destination),
            hint="name a new or empty folder; --force makes a port of paralign's again and keeps what was edited",
        )
    if there:
        kept_edits.check_own(target)
    find([source])
    within = source.is_dir() and (source / "__init__.py").is_file()
    root = source if source.is_dir() and not within else source.absolute().parent
    if source.is_dir() and source.resolve() in target.resolve().parents:
        raise UsageError("the project would lie in the source", where=str(destination), hint="name a folder beside it")
    check_module(root, built, source)
    sides = [_free(root, name) for name in ("reference", "candidate")]
    back = Path(os.path.relpath(root.resolve(), target.resolve())).as_posix()
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paralign-port-"))) if there else target
        port = made / PORT / source.name if within or not source.is_dir() else made / PORT
        ledger = convert_code(source, port, python, refused=refused)
        if there:
            _leave_out_written(ledger, made, target, port)
        texts = {
            "paralign.toml": _project(source.name, back, python, asked, sides),
            sides[0]: _side(built, "The reference"),
            sides[1]: _side(built, "The candidate"),
            LEFT: left(ledger),
        }
        _write(made, texts)
        if there:
            return Draft(target, ledger, source, kept_edits.merge(made, target).kept)
    kept_edits.record_all(target)
    return Draft(target, ledger, source)


def _leave_out_written(ledger: Ledger, made: Path, target: Path, port: Path) -> None:
    """Drop places left by hand that no longer raise in a user's file: they are written."""
    home = port if port.is_dir() else port.parent
    texts: dict[str, str] = {}
    for name in kept_edits.edited(made, target):
        with suppress(ValueError, OSError):
            texts[(made / name).relative_to(home).as_posix()] = read(target / name).text
    ledger.places[:] = [each for each in ledger.places if not _is_written(each, texts)]


def _is_written(place: Place, texts: dict[str, str]) -> bool:
    """Whether a place was left by hand, and its file, which was edited, raises there no more."""
    if place.fate is not Fate.BY_HAND or place.path not in texts:
        return False
    return f"{place.where}: " not in texts[place.path]


def originals(made: Draft) -> dict[str, str]:
    """The text of each file of the source, by the path that the ledger names it with."""
    home = made.source if made.source.is_dir() else made.source.parent
    return {each.path: read(home / each.path).text for each in made.ledger.files if each.path.endswith(".py")}


def package_of(made: Draft) -> str:
    """The package that the ledger's paths begin in; '' where they begin at the root."""
    if made.source.is_dir() and (made.source / "__init__.py").is_file():
        return made.source.resolve().name
    return ""


def rewrite_ledger(made: Draft) -> list[str]:
    """Write the ledger and the list of what is left again; gives the names written.

    The user's own files are not written.

    Raises:
        WriteFailed: a file cannot be written.
    """
    texts = {made.ledger_name: made.ledger.to_json(), LEFT: left(made.ledger)}
    ours = [name for name in texts if name not in made.kept]
    try:
        for name in ours:
            (made.folder / name).write_text(texts[name], encoding="utf-8")
    except OSError as fault:
        raise unwritten(made.folder / LEFT, fault) from fault
    return ours


def check_module(root: Path, built: Model, source: Path, form: str = "--model package.module:Class") -> None:
    """Refuse a module that is not below a folder, and names that it does not bind.

    ``form``: how it is written on the command line.

    Raises:
        UsageError: the module is not there, or a name is not bound in it.
    """
    place = root.joinpath(*built.module.split("."))
    file = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
    if file is not None:
        _check_names(file, built, form)
    else:
        first = source.stem if source.is_file() or (source / "__init__.py").is_file() else "package"
        raise UsageError(
            f"there is no module {quoted(built.module)}{did_you_mean(built.module, _modules(root))}",
            where=str(root),
            hint=f"write it from there, such as {first}.module:Class",
        )


def _modules(root: Path) -> list[str]:
    """The modules below a folder, by their dotted names."""
    paths = [path.relative_to(root).with_suffix("") for path in find([root]) if path.suffix == ".py"]
    return [".".join(path.parts[:-1] if path.name == "__init__" else path.parts) for path in paths]


def _check_names(file: Path, built: Model, form: str) -> None:
    """Refuse names that a module does not bind.

    What it takes by a star, or cannot be parsed, is not known.
    """
    try:
        body = ast.parse(read(file).text).body
    except (SyntaxError, ValueError, RecursionError):
        return
    bound: set[str] = set()
    for node in (inner for each in body for inner in ast.walk(each)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    for name in built.names:
        if name not in bound and "*" not in bound:
            near = did_you_mean(name, sorted(bound))
            raise UsageError(f"the module has no {quoted(name)}{near}", where=str(file), hint=form)


def _write(target: Path, texts: dict[str, str]) -> None:
    written: list[Path] = []
    try:
        for name, text in texts.items():
            with (target / name).open("x", encoding="utf-8") as file:
                file.write(text)
            written.append(target / name)
    except OSError as fault:
        for path in written:  # none of them was there before
            with suppress(OSError):
                path.unlink()
        raise unwritten(target, fault, "the project") from fault


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _free(root: Path, name: str) -> str:
    """The file of a side, by a name that no module of the source has."""
    while (root / name).is_dir() or (root / f"{name}.py").is_file():
        name += "_side"
    return f"{name}.py"


def _project(name: str, back: str, python: str | None, inputs: str, sides: Sequence[str]) -> str:
    interpreter = f"python = {_quoted(python)}\n" if python else ""
    told = " ".join(name.split())
    return f"""\
# The port of {told} by `paralign port`: {LEFT} lists what is left by hand. Run it with: paralign check

stages = ["weights", "forward"]
out = "result"

[reference]
module = "{sides[0]}"
root = {_quoted(back)}
framework = "torch"

[candidate]
module = "{sides[1]}"
root = "{PORT}"
framework = "paddle"
{interpreter}
{inputs}"""


def _side(built: Model, what: str) -> str:
    return f'''\
"""{what}, as the command line asked for it."""


def build_model():
    from {built.module} import {", ".join(built.names)}

    return {built.expression}
'''


def left(ledger: Ledger) -> str:
    """What is left by hand, and what holds under a condition, with lines: Markdown."""
    refused = [each for each in ledger.files if each.fate is FileFate.REFUSED]
    by_hand = _of_fate(ledger, Fate.BY_HAND)
    open_ones = _of_fate(ledger, Fate.CONDITION, Fate.UNTOUCHED)
    lines = ["# Left by hand", "", f"{len(by_hand)} places raise until they are written, {len(refused)} files were not converted.", ""]
    lines += [f"- `{each.path}`: not converted: {each.problem}" for each in refused]
    lines += [_told((each.where, each)) for each in by_hand]
    lines += ["", "# To be looked at", "", f"{len(open_ones)} places hold under a condition, or were left as they are.", ""]
    lines += map(_told, alike(open_ones))
    repaired = _of_fate(ledger, Fate.REPAIRED)
    if repaired:
        lines += ["", "# Repaired", "", "These lines were edited after the conversion: with the edits the port is aligned.", ""]
        lines += [f"- `{each.path}:{each.line}` {each.note}" for each in repaired]
    return "\n".join(lines) + "\n"


def _of_fate(ledger: Ledger, *fates: Fate) -> list[Place]:
    """The places of a ledger that had one of some fates."""
    return [place for place in ledger.places if place.fate in fates]


def _told(said: tuple[str, Place]) -> str:
    """Places as an item of a list: their lines, their name, and what is noted of them."""
    where, place = said
    return f"- `{where}` {place.name}: {place.note}"
