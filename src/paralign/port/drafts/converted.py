"""``convert code``: PyTorch's source becomes Paddle's, with a ledger of every place.

The source is a file or a tree.
"""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.catalogue.parameters import Table, stored
from paralign.errors import ParalignError, UsageError, one_line, unwritten
from paralign.port.edits.call_edits import ROOTS
from paralign.port.edits.ledger import Fate, File, FileFate, Ledger
from paralign.port.layers.turning import has_ties
from paralign.port.names.literal_names import with_plain_names
from paralign.port.names.observing import Observed, Observer
from paralign.port.names.value_hints import holds_nan, holds_narrow
from paralign.port.plans.conversions import conversions, in_order
from paralign.port.rewriting.converting import Converter
from paralign.port.scan.scanning import Program, ask
from paralign.port.sources.notebooks import Notebook
from paralign.port.sources.other_files import OtherFiles, other_files
from paralign.port.sources.parsing import parse
from paralign.port.sources.texts import decoded, find, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from paralign.port.drafts.refused_types import Function

#: the ledger's name beside what was converted
LEDGER = "ledger.json"

#: the proof's name beside it
PROOF = "proof.json"

_CODING = re.compile(r"^(?P<head>[ \t\f]*#.*?coding[:=][ \t]*)(?P<name>[-\w.]+)")


def convert_code(
    source: str | Path,
    destination: str | Path,
    python: str | None = None,
    *,
    force: bool = False,
    before_writing: Callable[[], None] = lambda: None,
    refused: Collection[Function] = (),
) -> Ledger:
    """Turn PyTorch source into Paddle source.

    Args:
        source: a Python file or a folder, nothing of which is imported or run. Small files of a folder that are no source are copied.
        destination: the file or folder to write; the ledger lies in the folder as ``ledger.json``, beside a file as ``NAME.ledger.json``.
        python: the interpreter whose Paddle is asked what it offers; without it a stored table is.
        force: replace files that are there. Nothing is removed.
        before_writing: called once all is checked and converted, just before the first file is written.
        refused: functions in which Paddle has refused an operator of several types: their operators are written for these.

    Returns:
        What became of every file and every use of PyTorch.

    Raises:
        UsageError: the source is not there, or a destination is there already.
        EnvironmentUnavailable: the interpreter does not answer.
    """
    source, destination = Path(source), Path(destination)
    files = find([source])
    targets = _targets(source, destination, files)
    record = destination / LEDGER if source.is_dir() else destination.with_name(f"{destination.name}.{LEDGER}")
    others = other_files(source, {LEDGER, PROOF}) if source.is_dir() else OtherFiles()
    _check(source, destination, [*targets.values(), record, *[destination / name for name in others.contents]], force=force)
    paddle = ask(python)[0] if python else stored("paddle")
    ledger = Ledger(stored("torch").version, paddle.version, others=others)
    program = Program(files, Observer)
    tied = any(map(_ties_weights, files if source.is_dir() else [source, *sorted(source.parent.glob("*.py"))]))
    by_file = {path: frozenset(each.name for each in refused if each.path == _shown(path, source)) for path in files}
    words = frozenset(word for path in files for quoted in _QUOTED.findall(read(path).text) for word in quoted.split())
    twice = any("create_graph" in read(path).text for path in files)
    trees = list(_trees(files)) if len(files) > 1 else []
    set_before = {
        "tied_elsewhere": tied,
        "words_elsewhere": words,
        "derived_twice": twice,
        "narrow_elsewhere": any(map(holds_narrow, trees)),
        "nan_elsewhere": any(map(holds_nan, trees)),
    }
    texts = {path: _converted(path, _shown(path, source), program, paddle, ledger, set_before, by_file[path]) for path in files}
    before_writing()
    for path, text in texts.items():
        if text is not None:
            write(targets[path], text, force=force)
    for name, content in others.contents.items():
        _copy(destination / name, content, others.modes[name], force=force)
    write(record, ledger.to_json(), force=force)
    return ledger


def _trees(files: list[Path]) -> Iterator[ast.Module]:
    """The trees of a program's files.

    Those that are no Python are told when they are converted.
    """
    for path in files:
        with suppress(SyntaxError, ValueError, RecursionError, ParalignError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield ast.parse(read(path).text)


def _shown(path: Path, source: Path) -> str:
    return path.relative_to(source).as_posix() if source.is_dir() else path.name


def _targets(source: Path, destination: Path, files: list[Path]) -> dict[Path, Path]:
    if not source.is_dir():
        return {source: destination}
    return {path: destination / path.relative_to(source) for path in files}


def _check(source: Path, destination: Path, targets: list[Path], *, force: bool) -> None:
    inside = destination.resolve()
    if inside == source.resolve() or (source.is_dir() and source.resolve() in inside.parents):
        raise UsageError("the destination lies in the source", where=str(destination), hint="name another folder")
    for path in targets:
        if path.is_symlink() or not path.resolve().is_relative_to(_home(destination)):
            raise UsageError("a link stands where a file shall be written", where=str(path), hint="name another destination")
        if path.is_dir():
            raise UsageError("there is a folder where a file shall be written", where=str(path), hint="name a file")
        if path.exists() and not force:
            raise UsageError("the destination is there already", where=str(path), hint="name another one, or give --force")


def _home(destination: Path) -> Path:
    """The folder below which all is written: the destination, or that of a single file."""
    return destination.resolve() if destination.is_dir() else destination.parent.resolve()


def check_free(path: Path, *, force: bool) -> None:
    """Refuse a link where a file is to be written, and a file that may not be replaced.

    Raises:
        UsageError: something of that kind is there.
    """
    if path.is_symlink():
        raise UsageError("a link stands where a file shall be written", where=str(path), hint="name another destination")
    if path.exists() and not force:
        raise UsageError("the destination is there already", where=str(path), hint="name another one, or give --force")


def write(path: Path, text: str, *, force: bool) -> None:
    """Write a file in UTF-8; one that is there is replaced with ``force`` alone.

    Raises:
        WriteFailed: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as fault:
        raise unwritten(path, fault) from fault


def _copy(path: Path, content: bytes, mode: int, *, force: bool) -> None:
    """Write a file as it is, with its permissions."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if force else "xb") as file:
            file.write(content)
        path.chmod(mode)
    except OSError as fault:
        raise unwritten(path, fault) from fault


def _ties_weights(path: Path) -> bool:
    """Whether a file gives a layer another one's weight."""
    text = read(path).text
    return text.count(".weight") > 1 and any(map(has_ties, parse(text).body))


#: a text of one line that may be names
_QUOTED = re.compile(r"""["']([\w ]{1,80})["']""")


def _converted(
    path: Path, name: str, program: Program, paddle: Table, ledger: Ledger, elsewhere: dict[str, Any], refused: frozenset[str]
) -> str | None:
    """A file's new text; None where it is refused."""
    text, seen, problem = program.read(path)
    if problem or seen.lost:
        ledger.files.append(File(name, FileFate.REFUSED, one_line(problem or "a part of it cannot be parsed")))
        return None
    if not isinstance(seen, Observed):
        raise ParalignError("the program was read without its values", where=name)
    try:
        notebook = Notebook(text) if path.suffix == ".ipynb" else None
        source = notebook.program if notebook else _coding(text.text)
        converter = Converter(name, source, seen, paddle, text)
        converter.refused = refused
        vars(converter).update(elsewhere)
        if not converter.uses and not converter.named and not _imports(source):
            ledger.files.append(File(name, FileFate.COPIED))
            return decoded(path.read_bytes())[0] if notebook else source
        result = _rewritten(converter, source, notebook)
        left = _left(result)
        if notebook:
            _note_ipython(converter, notebook)
            result = notebook.written(result)
    except (SyntaxError, ValueError, RecursionError) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        ledger.files.append(File(name, FileFate.REFUSED, one_line(f"{kind}{error}")[:160]))
        return None
    if left:
        ledger.files.append(File(name, FileFate.REFUSED, f"a use of {left} in it is not understood"))
        return None
    ledger.places += converter.places
    ledger.files.append(File(name, FileFate.CONVERTED))
    return result


def _rewritten(converter: Converter, source: str, notebook: Notebook | None) -> str:
    tree = _tree(source)
    if notebook:
        notebook.mark(converter.text)
    converter.visit(tree)
    return _with_import(tree, converter)


def _note_ipython(converter: Converter, notebook: Notebook) -> None:
    """Note lines of IPython that name PyTorch.

    They stay as they are, and those that are Python behind their mark raise.
    """
    for at in notebook.ipython:
        line = notebook.line(at).strip()
        if not any(re.search(rf"\b{root}\b", line) for root in ROOTS):
            continue
        runs = line.startswith("%") and not line.startswith(("%pip", "%conda", "%%"))
        text = "a line of IPython stays as it is: it raises, as torch is not imported" if runs else "a line of IPython stays as it is"
        converter.note_line(at + 1, line, "IPython", Fate.BY_HAND if runs else Fate.UNTOUCHED, text)


def _tree(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes and comparisons in the user's source
        return with_plain_names(ast.parse(text))


def _imports(text: str) -> bool:
    """Whether a program imports PyTorch, even where it uses nothing of it."""
    for node in ast.walk(_tree(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] in ROOTS for name in names):
            return True
    return False


def _coding(text: str) -> str:
    """The text with its declared encoding, which is UTF-8 from now on."""
    lines = text.split("\n")
    for at in range(min(2, len(lines))):
        found = _CODING.match(lines[at])
        if found is not None:
            lines[at] = f"{found['head']}utf-8"
            break
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            break
    return "\n".join(lines)


def _left(text: str) -> str:
    """A name of PyTorch's packages that the new text still uses.

    SyntaxError where the text does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes and comparisons in the user's source
        compile(text, "converted", "exec", dont_inherit=True)  # refuses what a parser alone takes: an argument given twice
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Name) and node.id in ROOTS:
            return node.id
    return ""


def _with_import(tree: ast.Module, converter: Converter) -> str:
    """The new text, with ``import paddle`` where it is needed and not there."""
    text = converter.text
    plain = [node.lineno for node in tree.body if isinstance(node, ast.Import) and any(map(_plain_import, node.names))]
    body = [node for node in tree.body if not _before_imports(node)]
    first = next(iter(body), None)
    begun = next((node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)), None)
    helpers = [made.text(own) for own, made in converter.adapters.values()] + list(converter.tables.values())
    helpers += [conversions().helpers[name] for name in in_order(converter.helpers)]
    if helpers and begun is not None:
        late = not plain or min(plain) > _line(begun)
        at = text.line(_line(begun))
        text.edit(at, at, ("import paddle\n\n\n" if late else "\n") + "\n\n".join(helpers) + "\n\n", closes=True)
        if first is begun:  # it is imported with the helpers
            return text.rendered()
    if converter.spelled_out and not plain and first is not None:
        at = text.line(_line(first))
        text.edit(at, at, "import paddle\n", closes=True)
    return text.rendered()


def _line(node: ast.stmt) -> int:
    """The first line of a statement, decorators included."""
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    return min([node.lineno, *[each.lineno for each in decorators]])


def _plain_import(alias: ast.alias) -> bool:
    """Whether an import binds ``paddle`` when it is rewritten."""
    return alias.asname is None and alias.name.partition(".")[0] in (*ROOTS, "paddle")


def _before_imports(node: ast.stmt) -> bool:
    """Whether a statement has to stand before imports: a docstring, or a future import."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
