"""``scan``: files read, calls told, each asked of the catalogue and of Paddle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical
from paralign.catalogue.parameters import TABLES, Table, read_table, stored
from paralign.errors import EnvironmentUnavailable, one_line
from paralign.port.names.literal_names import with_plain_names
from paralign.port.names.ownership import LIBRARIES
from paralign.port.names.walking import Outcome, Reader
from paralign.port.scan.inventory import Category, FileRow, Inventory, Row, Status
from paralign.port.scan.statuses import judge
from paralign.port.sources.parsing import parse
from paralign.port.sources.texts import Text, find, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.port.names.values import Use, Value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: seconds that an interpreter may take to say what Paddle offers: 8 s on one busy core, minutes from a network disk
LIMIT = 300.0

#: characters of a line that are kept for a row
_SHOWN = 160

#: modules that import one another, one within the other: deeper ones are read by themselves
_NESTED = 24

#: parts of names of files, classes and functions that prepare data
_DATA = ("transform", "dataset", "augment", "preprocess", "collate", "loader", "data", "image", "reader", "crop")


def scan(
    paths: Sequence[str | Path], python: str | None = None, *, progress: Callable[[int, int, str], None] = lambda *_: None
) -> Inventory:
    """List every call of a framework in source files.

    Args:
        paths: files, notebooks and folders.
        python: the interpreter of the port's side, which is asked what its Paddle offers; without it the stored table is.
        progress: called for every file with how many are done, of how many, and its name.

    Raises:
        UsageError: a path is not there, or no source file is below any of them.
        EnvironmentUnavailable: the interpreter does not answer, or has no Paddle.
    """
    files = find(paths)
    paddle, asked = ask(python) if python else (stored("paddle"), "a table stored with paralign")
    inventory = Inventory(torch=stored("torch").version, paddle=paddle.version, asked=asked)
    program = Program(files)
    foreign: set[str] = set()
    for number, path in enumerate(files):
        progress(number, len(files), path.name)
        text, outcome, problem = program.read(path)
        foreign |= outcome.foreign
        _add(inventory, text, outcome, problem, paddle)
        program.release(path)
    inventory.foreign = sorted(name for name in foreign if name and name not in sys.stdlib_module_names)
    return inventory


def ask(python: str) -> tuple[Table, str]:
    """What the Paddle of an interpreter offers, and where that was asked.

    Raises:
        EnvironmentUnavailable: it does not answer, or has no Paddle.
    """
    from paralign import worker

    script = Path(next(iter(worker.__path__))) / "interpreter" / "signatures.py"
    roots = tomllib.loads((TABLES / "roots.toml").read_text(encoding="utf-8"))["paddle"]
    try:
        done = subprocess.run([python, "-I", str(script), *roots], capture_output=True, check=False, timeout=LIMIT)  # noqa: S603 - the user's own interpreter
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnavailable("the interpreter does not answer", where=python, hint=one_line(str(error))[:200]) from error
    table = read_table(done.stdout.decode("utf-8", errors="replace"), "paddle")
    if not table.texts:
        said = done.stdout.decode("utf-8", errors="replace") + done.stderr.decode("utf-8", errors="replace")
        last = one_line(said.strip().split("\n")[-1])[:200]
        raise EnvironmentUnavailable("this interpreter has no Paddle that can be imported", where=python, hint=last or "name another one")
    return table, python


class Program:
    """The files of one scan.

    Modules that import one another are read once, each by the names that it gives others.
    """

    def __init__(self, files: Sequence[Path], reader: type[Reader] = Reader) -> None:
        self._reader = reader
        self._found: dict[Path, tuple[Text, Outcome, str]] = {}
        self._names: dict[Path, dict[str, Value]] = {}
        self._reading: list[Path] = []
        self._modules: dict[str, list[Path]] = {}
        for path in files:
            parts = path.with_suffix("").parts
            name = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]
            self._modules.setdefault(name, []).append(path)

    def read(self, path: Path) -> tuple[Text, Outcome, str]:
        """A file's text, what it uses, and why it could not be parsed whole."""
        if path not in self._found:
            self._reading.append(path)
            text = read(path)
            parsed = parse(text.text)
            reader = self._reader(lambda module, level: self.exports(path, module, level))
            self._names[path] = reader.outcome.names
            outcome = reader.run(with_plain_names(ast.Module(parsed.body, type_ignores=[])).body)
            outcome.lost += parsed.lost
            self._found[path] = (text, outcome, text.problem or parsed.problem)
            self._reading.pop()
        return self._found[path]

    def release(self, path: Path) -> None:
        """Forget what a file uses; its names stay."""
        text, outcome, problem = self._found[path]
        self._found[path] = (Text(text.path), Outcome(names=outcome.names), problem)

    def exports(self, path: Path, module: str, level: int) -> dict[str, Value] | None:
        """Names that a module of the program offers to a file; None if it is none of it."""
        target = self._module(path, module, level)
        if target is None:
            return None
        if target not in self._names and len(self._reading) < _NESTED:
            self.read(target)
        return self._names.get(target, {})

    def _module(self, path: Path, module: str, level: int) -> Path | None:
        parts = module.split(".") if module else []
        if level:
            home = path.parents[level - 1] if level <= len(path.parents) else path.parent
            base = home.joinpath(*parts)
            candidates = [base.with_suffix(".py") if parts else base / "__init__.py", base / "__init__.py"]
            known = self._modules.get(parts[-1] if parts else home.name, [])
            return next((each for each in candidates if each in known), None)
        for each in self._modules.get(parts[-1], []) if parts else []:
            own = each.parent.parts if each.stem == "__init__" else each.with_suffix("").parts
            if own[-len(parts) :] == tuple(parts) and each != path:
                return each
        return None


def _add(inventory: Inventory, text: Text, outcome: Outcome, problem: str, paddle: Table) -> None:
    path = str(text.path)
    file = FileRow(path, text.text.count("\n"), 0, problem, outcome.lost, outcome.ambiguous, notes=list(text.notes))
    inventory.files.append(file)
    lines = text.text.split("\n")
    seen: set[tuple[str, int, int, str]] = set()
    for use in sorted(outcome.uses, key=lambda each: (each.line, each.column)):
        key = (use.name, use.line, use.column, use.form.value)
        if key in seen:
            continue
        seen.add(key)
        if use.name.partition(".")[0] in LIBRARIES and not _prepares_data(use, path):
            file.outside += 1
            continue
        inventory.rows.append(_row(use, path, text, lines, paddle))
        file.calls += 1


def _row(use: Use, path: str, text: Text, lines: list[str], paddle: Table) -> Row:
    judged = judge(use, paddle)
    cell, line = text.place(use.line)
    source = lines[use.line - 1].strip() if use.line <= len(lines) else ""
    return Row(
        path, line, use.column + 1, use.end_line - use.line + line, use.end_column + 1, cell, source[:_SHOWN], use.name, use.form,
        use.certainty, category(use.name), use.inside, judged.status, judged.port, judged.basis, judged.notes,
    )  # fmt: skip


def _prepares_data(use: Use, path: str) -> bool:
    if use.data:
        return True
    text = f"{Path(path).stem} {use.inside}".casefold()
    return any(part in text for part in _DATA)


def category(name: str) -> Category:
    """The part of a program that a callable belongs to."""
    name = canonical(name)
    last = name.rpartition(".")[2]
    if "distributed" in name or last in (
        "DataParallel",
        "DistributedDataParallel",
        "DistributedSampler",
        "DistributedBatchSampler",
        "SyncBatchNorm",
    ):
        return Category.DISTRIBUTED
    if name.startswith(("torch.optim", "paddle.optimizer", "torch.nn.utils.clip", "paddle.nn.Clip")):
        return Category.OPTIMIZER
    if name.partition(".")[0] in LIBRARIES or name.startswith(_DATA_HOMES):
        return Category.DATA
    network = name.startswith(("torch.nn", "paddle.nn", "torchvision", "paddle.vision"))
    if network and ("loss" in last.casefold() or last in _LOSSES):
        return Category.LOSS
    return Category.NETWORK if network else Category.TENSOR


_DATA_HOMES = (
    "torch.utils.data", "torchvision.transforms", "torchvision.datasets", "torchvision.io", "torchaudio", "paddle.io",
    "paddle.vision.transforms", "paddle.vision.datasets", "paddle.audio", "paddle.text",
)  # fmt: skip

#: losses whose names do not say so
_LOSSES = frozenset(
    {
        "cross_entropy",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "kl_div",
        "softmax_with_cross_entropy",
        "square_error_cost",
    }
)


def counted(inventory: Inventory, statuses: Sequence[Status]) -> int:
    """Calls that have one of these statuses."""
    return sum(any(row.has(status) for status in statuses) for row in inventory.rows)
