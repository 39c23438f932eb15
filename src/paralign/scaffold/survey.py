"""What a repository of PyTorch code defines and uses. Read, never run."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import checked_path, near
from paralign.errors import UsageError
from paralign.scaffold.configurations import calls as configurations
from paralign.scaffold.configurations import registered
from paralign.scaffold.examples import Example, find
from paralign.scaffold.losses import FUNCTIONAL, Losses, Source
from paralign.scaffold.parts import assigned, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

#: files that are read, and their bytes: a large repository has some thousand files of some hundred kilobytes
MOST_FILES, LARGEST = 5000, 2 << 20

_SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})


class Kind(Enum):
    """What a class or a call is for."""

    MODEL = "model"
    LOSS = "loss"
    DATASET = "data set"
    OPTIMIZER = "optimizer"
    SCHEDULER = "schedule"


@dataclass(frozen=True)
class Place:
    """A line of a file, relative to the repository."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; ``default`` is its text, None where there is none."""

    name: str
    default: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether a call must give it: it has no default, and is no ``*args``."""
        return self.default is None and not self.name.startswith("*")

    def __str__(self) -> str:
        return self.name if self.default is None else f"{self.name}={self.default}"


@dataclass(frozen=True)
class Method:
    """A method of a class, or a function, with its last line.

    ``gives`` says whether it returns something.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int
    end: int = 0
    gives: bool = False

    @property
    def required(self) -> list[str]:
        """Parameters without a default; such as ``*args`` are none."""
        return [p.name for p in self.parameters if p.is_needed]


@dataclass(frozen=True)
class Definition:
    """A class, with its last line. ``bases`` are dotted names, imports resolved.

    ``kind`` is None for one that is none of the kinds.
    """

    name: str
    place: Place
    bases: tuple[str, ...]
    methods: tuple[Method, ...] = ()
    end: int = 0
    kind: Kind | None = None

    def method(self, name: str) -> Method | None:
        """The method of this name that the class itself defines."""
        for each in self.methods:
            if each.name == name:
                return each
        return None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the class is called with, ``self`` left out."""
        found = self.method("__init__")
        return found.parameters[1:] if found is not None else ()

    @property
    def required(self) -> list[str]:
        """Parameters without a default; such as ``*args`` are none."""
        return [p.name for p in self.parameters if p.is_needed]


@dataclass(frozen=True)
class Use:
    """A call.

    Args:
        kind: what it makes.
        name: dotted, imports resolved.
        place: where it stands.
        text: the call with the command line's defaults in place.
        literal: whether its arguments are literals, so that it can stand anywhere.
        alone: whether it can stand anywhere all the same: its other arguments are functions of nothing else.
        within: the function that makes the call and gives something back; None where there is none, or its file cannot just be imported.
    """

    kind: Kind
    name: str
    place: Place
    text: str
    literal: bool
    within: Method | None = None
    alone: bool = False


@dataclass
class File:
    """A file that was read.

    ``functions`` are those at its top level, ``factories`` those that put a whole model together. ``runs`` says that importing it does
    something: it calls, loops or reads the command line outside of functions. ``aliases`` are what its imports bind. ``settings`` are,
    by class, the defaults of what its constructor keeps, such as ``self.lr`` or ``self.hparams.lr``. ``configured_parts`` are classes
    that a configuration names inside of another one's.
    """

    path: Path
    classes: list[Definition] = field(default_factory=list)
    functions: list[Method] = field(default_factory=list)
    factories: list[Definition] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    calls: list[tuple[ast.Call, str]] = field(default_factory=list)
    runs: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, ast.expr]] = field(default_factory=dict)
    configured_parts: set[str] = field(default_factory=set)

    def kept_at(self, line: int) -> dict[str, ast.expr]:
        """The settings of the class around a line."""
        around = [each for each in self.classes if each.place.line <= line <= each.end]
        return self.settings.get(around[-1].name, {}) if around else {}


@dataclass
class Survey:
    """What a repository holds.

    ``unread`` are files that are no Python of this version, with the reason.

    ``examples`` are calls of models and losses with tensors of known shape, ``options`` the defaults of the command line.
    """

    root: Path
    files: list[File] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    unread: list[tuple[Path, str]] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    options: dict[str, ast.expr] = field(default_factory=dict)

    def classes(self, kind: Kind) -> list[Definition]:
        """All classes of a kind, in the order of files and lines."""
        return [each for file in self.files for each in file.classes if each.kind is kind]

    def used(self, kind: Kind) -> list[Use]:
        """All calls of a kind that come from the frameworks."""
        return [each for each in self.uses if each.kind is kind]

    @property
    def models(self) -> list[Definition]:
        """Model classes, whole models before their parts, built ones first."""
        found: list[Definition] = []
        parts: set[str] = set()
        programs: set[str] = set()
        for file in self.files:
            models = [each for each in [*file.factories, *file.classes] if each.kind is Kind.MODEL]
            found += models
            parts.update(name for each in models for name in self._inner(file, each))
            parts |= file.configured_parts
            programs.update(set(file.called) - {each.name for each in file.classes})
        return sorted(found, key=lambda each: (each.name in parts, each.name not in programs))

    @staticmethod
    def _inner(file: File, definition: Definition) -> set[str]:
        """Names that a class's methods call, itself left out."""
        inside = range(definition.place.line, definition.end + 1)
        return {name.rpartition(".")[2] for call, name in file.calls if call.lineno in inside} - {definition.name}


def survey(root: str | Path) -> Survey:
    """Read a repository.

    Raises:
        UsageError: there is no such folder, or no Python file in it.
    """
    folder = checked_path(root)
    if folder.is_file():
        raise UsageError("this is a file", where=str(root), hint="name the folder of its code")
    if not folder.is_dir():
        raise UsageError(
            f"the reference repository is not there{near(root)}",
            where=str(root),
            hint="name its folder: --reference ../paper-code",
        )
    found = Survey(folder.resolve())
    trees = [(path, tree) for path in _sources(found.root) if (tree := _parsed(found, path)) is not None]
    if not trees:
        raise UsageError("no Python file of the reference repository can be read", where=str(root), hint="name the folder of its code")
    defaults = _command_line(tree for _, tree in trees)
    found.options = defaults
    losses = Losses(_dotted)
    for path, tree in trees:
        found.files.append(_file(path, tree))
        found.examples += find(path, tree, defaults)
        _add_sources(losses, tree)
    names = registered(tree for _, tree in trees)
    for file, (_, tree) in zip(found.files, trees, strict=True):
        for call, name, is_part in configurations(tree, names):
            file.calls.append((call, name))
            (file.configured_parts if is_part else file.called).add(name.rpartition(".")[2])
    _assign_kinds(found, losses)
    for file in found.files:
        found.uses += [use for call, name in file.calls for use in _use(file, call, name, defaults)]
    return found


def _parsed(found: Survey, path: Path) -> ast.Module | None:
    """The syntax tree of a file; None where it is no Python of this version, which is noted."""
    try:
        return ast.parse((found.root / path).read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError) as fault:  # MemoryError: too deeply nested for the parser
        found.unread.append((path, f"{type(fault).__name__}: {fault}"))
        return None


def _sources(root: Path) -> Iterator[Path]:
    """Python files, relative to the root, in order.

    Hidden folders, builds and environments are left out.
    """
    count = 0
    for folder, inner, names in os.walk(root):
        here = Path(folder)
        inner[:] = sorted(n for n in inner if n[0] != "." and n not in _SKIPPED and not (here / n / "pyvenv.cfg").exists())
        for name in sorted(names):
            path = here / name
            if path.suffix == ".py" and path.is_file() and path.stat().st_size <= LARGEST:
                count += 1
                if count > MOST_FILES:
                    return
                yield path.relative_to(root)


# -- one file ------------------------------------------------------------------------------------------------------------------


def _file(path: Path, tree: ast.Module) -> File:
    aliases = _aliases(tree)
    found = File(path, runs=any(map(_does_something, tree.body)), aliases=aliases)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.functions.append(_method(node))
            found.factories += _factory(path, node, aliases)
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef):
            bases = tuple(name for name in (_dotted(base, aliases) for base in each.bases) if name)
            methods = tuple(_method(inner) for inner in each.body if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found.settings[each.name] = _settings(each)
            found.classes.append(Definition(each.name, Place(path, each.lineno), bases, methods, each.end_lineno or each.lineno))
        elif isinstance(each, ast.Call):
            name = _dotted(each.func, aliases)
            if name:
                found.calls.append((each, name))
                found.called.add(name.rpartition(".")[2])
    return found


def _settings(tree: ast.ClassDef) -> dict[str, ast.expr]:
    """``self.x`` or ``self.hparams.x`` -> the default of the parameter that it keeps.

    The former where a method does ``self.x = x`` and nothing else to it, the latter where ``save_hyperparameters`` is called.
    """
    built = next((each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if built is None:
        return {}
    plain = [*built.args.posonlyargs, *built.args.args]
    pairs = [*zip(plain[len(plain) - len(built.args.defaults) :], built.args.defaults, strict=True)]
    pairs += [(each, value) for each, value in zip(built.args.kwonlyargs, built.args.kw_defaults, strict=True) if value is not None]
    defaults = {each.arg: value for each, value in pairs if is_literal(value)}
    found: dict[str, ast.expr] = {}
    if any(isinstance(each, ast.Attribute) and each.attr == "save_hyperparameters" for each in ast.walk(built)):
        found = {f"self.hparams.{name}": value for name, value in defaults.items()}
    for name, value in defaults.items():
        if _is_changed(tree, built, name):
            continue
        kept = [*assigned(tree, name), *unpacked(tree, name)]
        if kept and all(isinstance(each, ast.Name) and each.id == name for each in kept):
            found[f"self.{name}"] = value
    return found


def _is_changed(tree: ast.ClassDef, built: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is given another value, or what keeps it is changed in place."""
    again = any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(built))
    changes = [each.target for each in ast.walk(tree) if isinstance(each, ast.AugAssign)]
    return again or any(isinstance(each, ast.Attribute) and each.attr == name for each in changes)


def _add_sources(losses: Losses, tree: ast.Module) -> None:
    """Hand over what a file defines: by what classes do it is decided which are losses."""
    aliases = _aliases(tree)
    losses.trees.append((tree, aliases))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = tuple(name for name in (_dotted(base, aliases) for base in node.bases) if name)
            losses.classes[node.name] = Source(node, aliases, bases)
    for each in tree.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            losses.functions[each.name] = (each, aliases)


def _does_something(statement: ast.stmt) -> bool:
    """Whether a statement of a module does more than define.

    A call, a loop, reading the command line.
    """
    if isinstance(statement, (ast.For, ast.While, ast.With)) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return True
    if not isinstance(statement, ast.Assign):
        return False
    return any(isinstance(each, ast.Attribute) and each.attr.startswith("parse_") for each in ast.walk(statement.value))


def _factory(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef, aliases: dict[str, str]) -> list[Definition]:
    """A function that gives ``nn.Sequential(…)``, as a model of its own."""
    if not any(_gives_sequential(each, aliases) for each in ast.walk(node)):
        return []
    method = _method(node)
    made = Method("__init__", (Parameter("self"), *method.parameters), node.lineno)
    forward = Method("forward", (Parameter("self"), Parameter("x")), node.lineno)
    return [Definition(node.name, Place(path, node.lineno), (), (made, forward), node.end_lineno or node.lineno, Kind.MODEL)]


def _gives_sequential(node: ast.AST, aliases: dict[str, str]) -> bool:
    """Whether a statement is ``return nn.Sequential(…)``."""
    if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Call):
        return False
    return _dotted(node.value.func, aliases) == "torch.nn.Sequential"


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Name in a file -> what it stands for, dotted."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    """The dotted name of an expression, imports resolved; '' for what is no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Method:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [ast.unparse(each) for each in arguments.defaults]
    found = [Parameter(each.arg, default) for each, default in zip(plain, defaults, strict=True)]
    if arguments.vararg:
        found.append(Parameter(f"*{arguments.vararg.arg}"))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(each.arg, None if default is None else ast.unparse(default)))
    if arguments.kwarg:
        found.append(Parameter(f"**{arguments.kwarg.arg}"))
    gives = any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(node))
    return Method(node.name, tuple(found), node.lineno, node.end_lineno or node.lineno, gives)


# -- kinds ---------------------------------------------------------------------------------------------------------------------

#: classes of the frameworks -> kind; names end so
_ROOTS = {
    "torch.nn.Module": Kind.MODEL,
    "torch.nn.Sequential": Kind.MODEL,
    "torch.nn.ModuleList": Kind.MODEL,
    "pytorch_lightning.LightningModule": Kind.MODEL,
    "torch.utils.data.Dataset": Kind.DATASET,
    "torch.utils.data.IterableDataset": Kind.DATASET,
    "torch.utils.data.dataset.Dataset": Kind.DATASET,
    "torch.optim.Optimizer": Kind.OPTIMIZER,
    "torch.optim.optimizer.Optimizer": Kind.OPTIMIZER,
    "torch.optim.lr_scheduler.LRScheduler": Kind.SCHEDULER,
    "torch.optim.lr_scheduler._LRScheduler": Kind.SCHEDULER,
}

#: endings of the names of classes that compute a loss
_LOSSES = ("Loss", "Criterion", "loss", "criterion")


def _assign_kinds(found: Survey, losses: Losses) -> None:
    """Give every class the kind of the framework's class that it goes back to.

    A module that does what a loss does is one, under whatever name, unless no model would be left.
    """
    by_name: dict[str, Definition] = {each.name: each for file in found.files for each in file.classes}

    def kind_of(definition: Definition, seen: frozenset[str]) -> Kind | None:
        for base in definition.bases:
            known = _kind_of_base(base)
            other = by_name.get(base.rpartition(".")[2])
            if known is None and other is not None and other.name not in seen:
                known = kind_of(other, seen | {other.name})
            if known is Kind.MODEL and definition.name.endswith(_LOSSES):
                return Kind.LOSS
            if known is not None:
                return known
        return None

    for file in found.files:
        file.classes = [replace(each, kind=kind_of(each, frozenset({each.name}))) for each in file.classes]
        file.classes.sort(key=lambda each: each.place.line)
    models = [each for file in found.files for each in file.classes if each.kind is Kind.MODEL]
    computing = {each.place for each in models if losses.computes_loss(each.name)}
    if len(computing) == len(models) and not any(file.factories for file in found.files):
        return
    for file in found.files:
        file.classes = [replace(each, kind=Kind.LOSS) if each.place in computing else each for each in file.classes]


def _kind_of_base(base: str) -> Kind | None:
    """The kind of a class of PyTorch or torchvision; None for any other class."""
    if base in _ROOTS:
        return _ROOTS[base]
    if base.startswith("torchvision.datasets."):
        return Kind.DATASET
    if base.startswith("torch.nn."):
        return Kind.LOSS if base.endswith(_LOSSES) else Kind.MODEL
    return None


# -- calls ---------------------------------------------------------------------------------------------------------------------

#: names under which programs keep what the command line says
_OPTIONS = frozenset({"args", "opt", "opts", "options", "FLAGS", "flags", "hparams", "config", "cfg", "hps"})

#: parameters whose argument a side's function is given
GIVEN = frozenset({"params", "optimizer", "input", "target"})


def _kind_of_call(name: str) -> Kind | None:
    head, _, last = name.rpartition(".")
    if head == "torch.optim.lr_scheduler" or head.endswith("optim.lr_scheduler"):
        return Kind.SCHEDULER
    if head == "torch.optim" and last[:1].isupper():
        return Kind.OPTIMIZER
    if (head == "torch.nn" and last.endswith("Loss")) or (head == "torch.nn.functional" and (last in FUNCTIONAL or last.endswith("_loss"))):
        return Kind.LOSS
    return None


def _use(file: File, call: ast.Call, name: str, defaults: dict[str, ast.expr]) -> Iterator[Use]:
    """A call of an optimizer, schedule or loss of PyTorch."""
    kind = _kind_of_call(name)
    if kind is None:
        return
    kept = file.kept_at(call.lineno)
    arguments = [filled(each, defaults, kept) for each in call.args]
    keywords = [ast.keyword(each.arg, filled(each.value, defaults, kept)) for each in call.keywords]
    own_call = ast.Call(call.func, arguments, keywords)
    given = 0  # arguments that the side's function puts in: the parameters, the optimizer, or outputs and labels
    if kind in (Kind.OPTIMIZER, Kind.SCHEDULER):
        given = 1
    elif name.startswith("torch.nn.functional."):
        given = 2
    own = [*arguments[given:], *(each.value for each in keywords if each.arg not in GIVEN)]
    bare = not unpacks(own_call) and (kind is not Kind.OPTIMIZER or _is_whole(own_call))
    literal = bare and all(is_literal(each) for each in own)
    alone = bare and all(is_literal(each) or _is_closed(each) for each in own)
    around = (each for each in file.functions if each.gives and each.line <= call.lineno <= each.end)
    within = None if file.runs else next(around, None)
    yield Use(kind, name, Place(file.path, call.lineno), ast.unparse(own_call), literal, within, alone)


def unpacks(call: ast.Call) -> bool:
    """Whether a call is given ``*args`` or ``**kwargs``, whose values it does not show."""
    if any(each.arg is None for each in call.keywords):
        return True
    return any(isinstance(each, ast.Starred) for each in call.args)


def _is_whole(call: ast.Call) -> bool:
    """Whether an optimizer is given ``model.parameters()``, without groups."""
    named = [each.value for each in call.keywords if each.arg == "params"]
    given = next(iter([*call.args, *named]), None)
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
        return False
    return given.func.attr == "parameters"


def filled(node: ast.expr, defaults: dict[str, ast.expr], kept: dict[str, ast.expr] | None = None) -> ast.expr:
    """An expression with ``args.lr`` and the like as the command line's defaults.

    ``kept`` are values of attributes such as ``self.lr``.
    """

    class Filler(ast.NodeTransformer):
        def visit_Attribute(self, each: ast.Attribute) -> ast.AST:
            if isinstance(each.value, ast.Name) and each.value.id in _OPTIONS and each.attr in defaults:
                return defaults[each.attr]
            known = (kept or {}).get(ast.unparse(each))
            if known is not None:
                return known
            return self.generic_visit(each)

    replaced = Filler().visit(ast.parse(ast.unparse(node), mode="eval").body)
    return replaced if isinstance(replaced, ast.expr) else node


#: functions of Python that an expression may call and stand anywhere
_PLAIN = frozenset({"min", "max", "abs", "float", "int", "round", "pow", "sum", "len", "range"})


def _is_closed(node: ast.expr) -> bool:
    """Whether an expression is a function of its own parameters and literals alone."""
    if not isinstance(node, ast.Lambda):
        return False
    own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    return all(each.id in own | _PLAIN for each in ast.walk(node) if isinstance(each, ast.Name))


def is_literal(node: ast.expr) -> bool:
    """Whether an expression is a number, a text, or a container of such."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _command_line(trees: Iterator[ast.Module]) -> dict[str, ast.expr]:
    """Option of ``add_argument`` -> its default, where that is a literal.

    Of options with several defaults none.
    """
    found: dict[str, list[ast.expr]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
                continue
            given = {k.arg: k.value for k in node.keywords}
            names = _option_names(node, given.get("dest"))
            default = given.get("default")
            if names and default is not None and is_literal(default):
                found.setdefault(max(names, key=len), []).append(default)
    return {name: each[0] for name, each in found.items() if len({ast.dump(one) for one in each}) == 1}


def _option_names(call: ast.Call, dest: ast.expr | None) -> list[str]:
    """The names under which a call of ``add_argument`` may store its option."""
    if isinstance(dest, ast.Constant) and isinstance(dest.value, str):
        return [dest.value]
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    return [text.lstrip("-").replace("-", "_") for text in texts if isinstance(text, str)]
