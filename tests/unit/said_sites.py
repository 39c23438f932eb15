"""What the package says: every place that raises an error of its own, or notes something of a stage, with the texts that it can make.

``python tests/unit/said_sites.py`` prints how many of them have a Chinese form, by folder; ``--missing`` prints those that have none.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
#: forms of one text at most: a sentence of several parts that are chosen each
MOST = 24
#: how many names are followed, one to the next
DEPTH = 3
#: a part that is put in when the sentence is made
PART = "{}"


@dataclass
class Site:
    """One place of the source, ``what`` it can say, and the texts that are put into that; a text that is not known is ``{}``."""

    path: str
    line: int
    kind: str
    what: list[str]
    fragments: list[str] = field(default_factory=list)
    source: str = ""

    @property
    def unknown(self) -> bool:
        """Whether it says something that cannot be read where it stands."""
        return any(not wordy(text) for text in self.what)


def wordy(text: str) -> bool:
    """Whether a text has words of its own around what is put in."""
    return re.search("[A-Za-z]{2}", text) is not None


class Module:
    """One file of the source: its tree, the functions around each node, what its names stand for."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(SOURCE).as_posix().removeprefix("paralign/")
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(self.tree))
        self.around: dict[int, ast.AST] = {}
        self._enclose(self.tree, self.tree)
        self.constants = self._assigned(self.tree.body)
        self._top = self._assigned([node for node in self.tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))])
        self._of_functions: dict[int, dict[str, list[ast.expr]]] = {}
        self.calls: dict[str, list[ast.Call]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self.calls.setdefault(_called(node), []).append(node)
        self.imported = {
            (alias.asname or alias.name): (node.module, alias.name)
            for node in self.nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }

    def _enclose(self, node: ast.AST, function: ast.AST) -> None:
        for inner in ast.iter_child_nodes(node):
            self.around[id(inner)] = function
            self._enclose(inner, inner if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) else function)

    @staticmethod
    def _assigned(body: list[ast.stmt]) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for node in itertools.chain.from_iterable(map(ast.walk, body)):
            targets = (
                node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) else []
            )
            for target in targets:
                if isinstance(target, ast.Name) and node.value is not None:
                    found.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, (ast.Tuple, ast.IfExp)):
                    values = [node.value] if isinstance(node.value, ast.Tuple) else [node.value.body, node.value.orelse]
                    for value in values:
                        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                            for one, its in zip(target.elts, value.elts, strict=True):
                                if isinstance(one, ast.Name):
                                    found.setdefault(one.id, []).append(its)
        return found

    def values(self, node: ast.Name) -> list[ast.expr]:
        """What a name can stand for: assigned in the functions around it, else in the module, else where it is imported from."""
        function = self.around.get(id(node), self.tree)
        while isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = self._inside(function).get(node.id) or self.given(function, node.id)
            if found:
                return found
            function = self.around.get(id(function), self.tree)
        return self._top.get(node.id, [])

    def _inside(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.expr]]:
        if id(function) not in self._of_functions:
            self._of_functions[id(function)] = self._assigned(function.body)
        return self._of_functions[id(function)]

    def _callers(self, function: str) -> list[Module]:
        """The files that can call a function of this file: all where nothing else in the package has its name."""
        if function.startswith("_"):
            return [self]
        if _definitions()[function] == 1:
            return list(modules().values())
        own = "paralign." + self.path.removesuffix(".py").replace("/", ".")
        return [self, *(other for other in modules().values() if other.imported.get(function, ("",))[0] == own)]

    def given(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> list[ast.expr]:
        """What the callers of a function in this file give for a parameter, and its default."""
        named = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        words = [arg.arg for arg in function.args.kwonlyargs]
        if name not in (*named, *words) or name in ("self", "cls"):
            return []
        place = named.index(name) - (named[:1] in (["self"], ["cls"])) if name in named else None
        defaults = dict(zip(reversed(named), reversed(function.args.defaults), strict=False)) | dict(
            zip(words, function.args.kw_defaults, strict=True)
        )
        found = [defaults[name]] if defaults.get(name) is not None else []
        for owner in self._callers(function.name):
            for call in owner.calls.get(function.name, ()):
                keyword = [word.value for word in call.keywords if word.arg == name]
                at_place = (
                    []
                    if place is None or place >= len(call.args) or any(isinstance(arg, ast.Starred) for arg in call.args)
                    else [call.args[place]]
                )
                found += keyword or at_place
        return found


@cache
def modules() -> dict[str, Module]:
    """Every file of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(path)
    return found


@cache
def _definitions() -> Counter[str]:
    """How many functions of the package have a name."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return Counter(node.name for module in modules().values() for node in module.nodes if isinstance(node, functions))


@cache
def _homes() -> dict[int, Module]:
    return {id(node): module for module in modules().values() for node in module.nodes}


def home(node: ast.AST, otherwise: Module) -> Module:
    """The file that a node stands in."""
    return _homes().get(id(node), otherwise)


def texts(module: Module, node: ast.expr | None, depth: int = 0) -> list[str]:
    """The texts that an expression can make, ``{}`` for what differs from case to case."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else [] if node.value is None else [PART]
    if isinstance(node, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else PART for part in node.values)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        both = itertools.product(*(texts(module, end, depth) or [PART] for end in (node.left, node.right)))
        return [one + other for one, other in itertools.islice(both, MOST)]
    if isinstance(node, ast.Name) and depth < DEPTH:
        return list(dict.fromkeys(_of_name(module, node, depth)))[:MOST] or [PART]
    inside = _choices(node)
    return [PART] if inside is None else [text for value in inside for text in texts(module, value, depth)]


def _choices(node: ast.expr | None) -> list[ast.expr] | None:
    """The expressions of which one is taken; None for what cannot be read."""
    if node is None:
        return []
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.value] if isinstance(node, ast.Starred) else None


def _of_name(module: Module, node: ast.Name, depth: int) -> list[str]:
    """The texts of all that a name can stand for."""
    found = [text for value in module.values(node) if value is not node for text in texts(home(value, module), value, depth + 1)]
    source, name = module.imported.get(node.id, ("", ""))
    if found or source not in modules():
        return found
    other = modules()[source]
    return [text for value in other.constants.get(name, []) for text in texts(other, value, depth + 1)]


def fragments(module: Module, node: ast.expr | None) -> list[str]:
    """The texts of several words that stand inside the parts of a sentence: they are chosen at run time and put in."""
    found: list[str] = []
    for joined in ast.walk(node) if node is not None else ():
        if not isinstance(joined, ast.FormattedValue):
            continue
        inside = [joined.value]
        if isinstance(joined.value, ast.Name):
            inside = [
                value
                for value in module.values(joined.value)
                if isinstance(value, (ast.IfExp, ast.Constant, ast.JoinedStr, ast.BinOp, ast.Name))
            ]
        for value in inside:
            shown = value if isinstance(value, (ast.IfExp, ast.Constant, ast.JoinedStr, ast.BinOp, ast.BoolOp, ast.Name)) else None
            found += [text for text in texts(home(value, module), shown) if len(re.findall("[A-Za-z]{2,}", text)) > 1]
    return found


@cache
def errors() -> frozenset[str]:
    """The names of all classes of errors."""
    found = {"ParalignError"}
    while True:
        more = {
            node.name
            for module in modules().values()
            for node in module.nodes
            if isinstance(node, ast.ClassDef) and {getattr(b, "id", None) or getattr(b, "attr", None) for b in node.bases} & found
        } - found
        if not more:
            return frozenset(found)
        found |= more


def _called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", None) or getattr(function, "attr", None) or ""


def _constructs(module: Module, node: ast.AST) -> bool:
    """Whether this is the call by which a class of errors hands its sentence to the class that it is made of."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"):
        return False
    function = module.around.get(id(node))
    classes = [owner for owner in module.tree.body if isinstance(owner, ast.ClassDef)]
    return any(owner.name in errors() - {"ParalignError"} and function in owner.body for owner in classes)


def _of_a_given_class(module: Module, node: ast.AST) -> bool:
    """Whether this makes an error of the class that the function around it was given."""
    function = module.around.get(id(node))
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and isinstance(function, ast.FunctionDef)):
        return False
    given = {arg.arg: ast.unparse(arg.annotation) for arg in (*function.args.args, *function.args.kwonlyargs) if arg.annotation}
    return re.fullmatch(r"[Tt]ype\[(.*)\]", given.get(node.func.id, "")) is not None and any(
        name in errors() for name in re.findall(r"\w+", given[node.func.id])
    )


def _site(module: Module, node: ast.AST, kind: str, *said: ast.expr | None) -> Site:
    what = list(dict.fromkeys(text for one in said for text in texts(module, one)))
    inside = list(dict.fromkeys(text for one in said for text in fragments(module, one)))
    return Site(module.path, node.lineno, kind, what, inside, " ".join(ast.unparse(one) for one in said if one is not None))


@cache
def error_sites() -> list[Site]:
    """Every call of a class of errors: its sentence, and as a site of its own its fix line."""
    found = []
    for module in modules().values():
        for node in module.nodes:
            if _called(node) not in errors() and not _constructs(module, node) and not _of_a_given_class(module, node):
                continue
            named = {word.arg: word.value for word in node.keywords}
            what = node.args[0] if node.args else named.get("what")
            hint = named.get("hint") or (node.args[2] if len(node.args) > 2 else None)
            if what is not None:
                found.append(_site(module, node, "sentence", what))
            if texts(module, hint):
                found.append(_site(module, node, "fix", hint))
    return found


#: attributes that hold what is said of a stage
NOTED = ("notes", "warnings")
#: what is said above the table, and the classes whose first argument, and the attribute, that name how a stage was judged
ABOVE = ("preflight",)
METHODS = ("Method",)
METHOD = "method"
#: classes that hold a cause and its fix after their rule
FINDINGS = ("Finding",)


@cache
def note_sites() -> list[Site]:
    """Every place that notes or warns something, or states a cause and its fix."""
    found = []
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.AugAssign):
                found += _noted(module, node, _holder(node.target), node.value)
            elif isinstance(node, ast.Call):
                found += _in_call(module, node)
    return [site for site in found if site.what]


@cache
def head_sites() -> list[Site]:
    """Every line that is said above the table, and every name of a method in it."""
    found = []
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.AugAssign):
                found += _noted(module, node, _holder(node.target), node.value, ABOVE)
            elif isinstance(node, ast.Assign) and METHOD in {getattr(target, "attr", None) for target in node.targets}:
                found.append(_site(module, node, METHOD, node.value))
            elif isinstance(node, ast.Call) and _called(node) in METHODS and module.path.startswith("stages/"):
                found.append(_site(module, node, METHOD, node.args[0]))
            elif isinstance(node, ast.Call) and _called(node) == "StageResult":
                found += [_site(module, node, METHOD, word.value) for word in node.keywords if word.arg == METHOD]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
                found += _noted(module, node, _holder(node.func.value), node.args[-1], ABOVE)
    return [site for site in found if site.what]


def _holder(node: ast.expr) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def _in_call(module: Module, node: ast.Call) -> list[Site]:
    found = []
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend", "insert") and node.args:
        found += _noted(module, node, _holder(node.func.value), node.args[-1])
    named = {word.arg: word.value for word in node.keywords}
    if _called(node) in FINDINGS:
        for place, kind in ((1, "cause"), (2, "fix")):
            said = node.args[place] if len(node.args) > place else named.get(kind)
            found.append(_site(module, node, kind, said))
    for holder in NOTED:
        if holder in named:
            found += _noted(module, node, holder, named[holder])
    return found


def _noted(module: Module, node: ast.AST, holder: str, value: ast.expr, holders: tuple[str, ...] = NOTED) -> list[Site]:
    if holder not in holders:
        return []
    if isinstance(value, ast.List):
        return [_site(module, node, holder, each) for each in value.elts]
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return [_site(module, node, holder, value.elt)]
    if isinstance(value, ast.IfExp):
        return [each for end in (value.body, value.orelse) for each in _noted(module, node, holder, end, holders)]
    return [_site(module, node, holder, value)]


#: texts that are the same in both languages: commands, code, names of files and of classes
SAME = frozenset(
    {
        *("paralign mcp FOLDER", "paralign check DIR STAGE", "paralign log convert {} --to jsonl --out {}"),
        *("pip install 'paralign[mcp]'", "pip install --upgrade 'paralign[mcp]'", 'pip install "paralign[train]"'),
        *("pip install 'paralign[plot]'", "pip install 'paralign[remote]'", "pip install 'paralign[ray]'", "pip install jinja2"),
        *("--sizes 2,5", "--model package.module:Class", "{}FOLDER", "{} is {}", "paralign://report/", "paralign capture"),
        *('check(..., rules="rules.toml")', "check(Side(model=...), Side(model=...), inputs=...)"),
        'assert_aligned(Side(model=...), Side(model=...), inputs=...), or assert_aligned("ports/mobilenet")',
        *("log.step(loss=...), log.evaluation(acc=...)", "model = log.model(build_model())"),
        *("PARALIGN_ADAPTERS", "manifest.json", "port.json", "paralign.toml", "paralign-data-1", "candidate_log", "reference_log"),
        *("leaky_relu", "fan_in", "build_model", "build_dataset", "build_dataloader", "build_optimizer"),
        *("train_step", "schedule_metric"),
        "SGD, Momentum, Adam, AdamW, NAdam, RAdam, Adamax, Adagrad, Adadelta, RMSprop, Rprop, Lamb",
        # what a side failed with: a class, or one of the protocol's words, as report.json has them
        *("exited", "timeout", "forked", "crashed", "killed", "left", "stopped", "launcher", "foreign answer"),
        *("UsageError", "TooLarge", "CaptureFormatError", "MalformedMessage"),
        # methods by the names that docs/verdicts.zh.md explains them under
        *("float64", "native", "perturbation", "rounding", "exact"),
    }
)
PASSED_ON = "hands on the text of another error of the package, which is translated as a whole"
FOREIGN = "the text of a library, of Python or of the user's own program"
PROTOCOL = "the class of what a side raised, or a word of the protocol"
PIECES = "only joins texts, each of which has its own Chinese form"
#: what a site says that cannot be read where it stands -> why that is well
EXPLAINED = {
    **dict.fromkeys(("error.what", "error.hint", "misfit.what", "misfit.hint", "fault.hint"), PASSED_ON),
    **dict.fromkeys(("f'{name!r}: {fault.what}'", "f'{misfit.what} ({reference.name})'"), PASSED_ON),
    "shortened(done.messages.removeprefix('paralign: '), 2000) or f'the command ended with {done.code}'": PASSED_ON,
    **dict.fromkeys(("failure.type", "failed.raised.type", "reply.type", "type(error).__name__", "kind"), PROTOCOL),
    "trace.type or 'exited'": PROTOCOL,
    **dict.fromkeys(("str(error)", "one_line(str(error))[:200]", "one_line(said)[:200]", "last or 'name another one'"), FOREIGN),
    **dict.fromkeys(("traceback", "failed.raised.traceback"), FOREIGN),
    **dict.fromkeys(("f'{what}: {fault}'", "f'{what}: {cause}'", "f'{refused}{did_you_mean(str(value), choices)}'"), PIECES),
    **dict.fromkeys(("hint", "self.dialect.hint or hint", "_again(stage)", "why", "left"), PIECES),
    "move.note or \"apply only what stands under 'moves'\"": PIECES,
}


def lacking(site: Site, known: dict[str, str]) -> list[str]:
    """The texts of a site that have no Chinese form, parts that are sentences included."""
    return [text for text in (*site.what, *site.fragments) if wordy(text) and text not in known and text not in SAME]


@dataclass
class Figures:
    """Of some sites: how many there are, have a Chinese form for each of their texts, or only hand on texts of others."""

    sites: int
    told: int
    handed_on: int

    def __str__(self) -> str:
        return f"{self.told} of {self.sites} sites have Chinese, {self.handed_on} hand on texts of others"


def figures(sites: list[Site], known: dict[str, str]) -> Figures:
    """The figures of some sites."""
    whole = [site for site in sites if not lacking(site, known)]
    handed = sum(not any(wordy(text) and text not in SAME for text in site.what) for site in whole)
    return Figures(len(sites), len(whole) - handed, handed)


def main() -> None:
    """Print how much of what the package says has a Chinese form."""
    from paralign.report.translating import sentences

    known, lines = sentences(), []
    for title, sites in (
        ("errors", error_sites()),
        ("notes, causes and remedies", note_sites()),
        ("above the table, methods", head_sites()),
    ):
        lines.append(f"{title}: {figures(sites, known)}")
        by_folder: dict[str, list[Site]] = {}
        for site in sites:
            by_folder.setdefault(site.path.split("/")[0], []).append(site)
        lines += [f"  {folder:14} {figures(inside, known)}" for folder, inside in sorted(by_folder.items())]
        for site in sites if "--missing" in sys.argv else ():
            lines += [f"    {site.path}:{site.line} {site.kind}: {text}" for text in lacking(site, known)]
    sys.stdout.write("\n".join([*lines, f"sentences in the tables: {len(known)}", ""]))


if __name__ == "__main__":
    main()
