"""What a function or module binds, reads and deletes: found once, asked often."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paralign.port.edits.keeping import extends, gathers, keeper_of
from paralign.port.edits.tensor_results import NEW, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_kept_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_OF_FORM = frozenset({"shape", "ndim", "dtype", "device"})

#: methods of a tensor after which nothing else holds it
_TOLD = frozenset({"backward", "clone", "dim", "item", "nelement", "numel", "size", "tolist"})

#: functions of Python that keep nothing of what they are given
_TELLING = frozenset({"float", "id", "int", "isinstance", "len", "print", "repr", "str", "type"})

#: what ends a way, or asks whether something is true, and keeps nothing
_ENDING = (ast.Assert, ast.Expr, ast.FormattedValue, ast.If, ast.Return, ast.While)

_Place = tuple[int, int]

Functions = dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]


class Binding(NamedTuple):
    """What binds a name: statement, value, and whether the name is one of the value's.

    ``twice`` where something beside the name is given the same value.
    """

    statement: ast.stmt
    value: ast.expr
    several: bool
    twice: bool = False


class Read(NamedTuple):
    """Where a name is read.

    ``passing`` where nothing keeps it there, ``within`` where a function within reads it, ``keeping`` where a container is
    given it.
    """

    place: _Place
    passing: bool
    within: bool
    keeping: bool = False


class Stored(NamedTuple):
    """What a container is given without a name of its own.

    ``keeper`` is the name of what is made of it; empty where it has none.
    """

    value: ast.expr
    statement: ast.stmt
    keeper: str
    several: bool


class Scope:
    """The names of a function or module."""

    def __init__(self, scope: ast.AST) -> None:
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        self.reads: dict[str, list[Read]] = defaultdict(list)
        self.deleted: set[str] = set()
        self.lists: dict[int, int] = {}
        self.stored: list[Stored] = []
        self.given = _given(scope)
        #: the functions of the file by their names
        self.functions: Functions = {}
        #: what its statements of a kind (``return``, ``yield``) give parts of, as far as that is known
        self.parts: dict[type[ast.Return | ast.Yield], tuple[Any, ...]] = {}
        self.is_module = isinstance(scope, ast.Module)
        for each in _statements(scope):
            for name, binding in _bindings(each):
                self.bindings[name].append(binding)
        self._places = {name: [place_of(each.statement) for each in found] for name, found in self.bindings.items()}
        self._walk(scope, [], within=False)

    def _walk(self, node: ast.AST, around: list[ast.AST], *, within: bool) -> None:
        """Note reads, deletions, and the list that each statement stands in."""
        for _, field in ast.iter_fields(node):
            if isinstance(field, list):
                self.lists.update({id(each): id(field) for each in field if isinstance(each, ast.stmt)})
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            self.deleted.add(node.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and getattr(around[-1], "attr", "") not in _OF_FORM:
            keeping = not within and keeper_of(node, around) is not None
            self.reads[node.id].append(Read(place_of(node), is_passing(node, around), within, keeping))
        if not within and isinstance(node, ast.Name | ast.Subscript | ast.Call | ast.Attribute):
            self._note_stored(node, around)
        around.append(node)
        inner = within or (len(around) > 1 and isinstance(node, (*FUNCTIONS, ast.Lambda)))
        for each in ast.iter_child_nodes(node):
            self._walk(each, around, within=inner)
        around.pop()

    def _note_stored(self, node: ast.Name | ast.Subscript | ast.Call | ast.Attribute, around: list[ast.AST]) -> None:
        """Note what a container is given; a comprehension's name stands for what it runs over."""
        keeper = keeper_of(node, around)
        statement = next((each for each in reversed(around) if isinstance(each, ast.stmt)), None)
        if keeper is None or statement is None or self._is_of_tensor(statement):
            return
        root: ast.AST = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        over = [
            each.iter
            for outer in around
            if isinstance(outer, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
            for each in outer.generators
            if isinstance(root, ast.Name) and any(isinstance(inner, ast.Name) and inner.id == root.id for inner in ast.walk(each.target))
        ]
        if over:
            self.stored.append(Stored(over[-1], statement, keeper, several=True))
        elif not isinstance(node, ast.Name):
            parent = around[-1]
            several = isinstance(parent, ast.Starred) or (isinstance(parent, ast.Call) and (gathers(parent) or extends(parent)))
            self.stored.append(Stored(node, statement, keeper, several=several and isinstance(node, ast.Call)))

    def _is_of_tensor(self, statement: ast.stmt) -> bool:
        """Whether a statement writes into an item of a tensor, which copies.

        A call or arithmetic made it.
        """
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(target, ast.Subscript) or isinstance(getattr(target.slice, "value", None), str):
            return False
        bound = [each.value for each in self.bindings.get(ast.unparse(target.value), [])]
        return any(isinstance(each, ast.BinOp) and not isinstance(each.left, ast.List) for each in bound) or any(
            isinstance(each, ast.Call) and not gathers(each) for each in bound
        )

    def before(self, node: ast.Name) -> list[Binding]:
        """What binds a name in front of a place where it stands."""
        found = self.bindings.get(node.id, [])
        return found[: bisect_right(self._places.get(node.id, []), place_of(node))]

    def reaching(self, node: ast.Name, around: Sequence[ast.AST]) -> tuple[list[Binding], bool]:
        """The last binding that always runs before a place, and those behind it.

        And whether it is there alone.
        """
        outer = {id(each) for each in around}
        lists = {self.lists[id(each)] for each in around if id(each) in self.lists}
        before = self.before(node)
        for at in range(len(before) - 1, -1, -1):
            statement = before[at].statement
            looped = isinstance(statement, ast.For | ast.AsyncFor)
            if id(statement) in outer or (not looped and self.lists.get(id(statement)) in lists):
                return before[at:], at == len(before) - 1
        return before, False

    def since(self, statement: ast.stmt, own: list[Binding]) -> _Place:
        """Where the last binding of a name that always runs before a statement ends."""
        start = place_of(statement)
        sure = [each for each in own if self.lists.get(id(each.statement)) == self.lists.get(id(statement))]
        last = [each for each in sure if place_of(each.statement) < start]
        return _end((last[-1] if last else own[0]).statement)

    def rebound(self, name: str, after: ast.stmt) -> _Place | None:
        """Where a name is bound anew behind a statement, in the same list of statements."""
        found = self.bindings.get(name, [])
        for each in found[bisect_right(self._places.get(name, []), place_of(after)) :]:
            if self.lists.get(id(each.statement)) == self.lists.get(id(after)):
                return _end(each.statement)
        return None


@lru_cache(maxsize=256)  # functions of a file that are asked for in turn; each holds its own names alone
def scope_of(node: ast.AST) -> Scope:
    """The names of a function or module, found once."""
    return Scope(node)


@lru_cache(maxsize=4)
def functions_of(module: ast.AST) -> Functions:
    """The functions and methods of a file by their names."""
    found: Functions = {}
    for each in ast.walk(module):
        if isinstance(each, FUNCTIONS):
            found.setdefault(each.name, []).append(each)
    return found


def given_for(name: str, call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    """What a call gives a function's parameter; a method's object is none of its arguments."""
    told = [each.value for each in call.keywords if each.arg == name]
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    at = parameters.index(name) if name in parameters else len(call.args)
    placed = call.args[at : at + 1] if not any(isinstance(each, ast.Starred) for each in call.args[: at + 1]) else []
    return next(iter((*told, *placed)), None)


def place_of(node: ast.stmt | ast.expr) -> _Place:
    """The line and column of a node."""
    return node.lineno, node.col_offset


def behind(statement: ast.stmt) -> _Place:
    """Where the places behind a binding begin: a loop's are in its body."""
    inner = getattr(statement, "body", None)
    return place_of(inner[0]) if inner and isinstance(inner[0], ast.stmt) else _end(statement)


def _end(node: ast.stmt) -> _Place:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function or module, in order; not those of functions within."""
    for each in ast.iter_child_nodes(scope):
        if isinstance(each, ast.stmt):
            yield each
        if not isinstance(each, (*FUNCTIONS, ast.ClassDef, ast.expr)):
            yield from _statements(each)


def _given(scope: ast.AST) -> frozenset[str]:
    """The parameters of a function."""
    if not isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        return frozenset()
    return frozenset(each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg))


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    """The names that a statement binds, and the attributes and keys of names."""
    for each in own_expressions(statement):
        for inner in ast.walk(each):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target.id, Binding(statement, inner.value, several=False, twice=True)
    for target, value, several, twice in _bound(statement):
        for name, binding in _targets(statement, target, value, several=several):
            yield name, binding._replace(twice=twice)
    for case in statement.cases if isinstance(statement, ast.Match) else []:
        for node in ast.walk(case.pattern):
            if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None and isinstance(statement, ast.Match):
                yield node.name, Binding(statement, statement.subject, several=True, twice=True)


def _bound(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr, bool, bool]]:
    """Each target of a statement and its value.

    And whether it is one of the value's, and whether something else is given the value too.
    """
    if isinstance(statement, ast.Assign):
        yield from ((target, statement.value, False, len(statement.targets) > 1) for target in statement.targets)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value, False, False
    elif isinstance(statement, ast.For | ast.AsyncFor):
        yield statement.target, statement.iter, True, False
    elif isinstance(statement, ast.With | ast.AsyncWith):
        yield from ((each.optional_vars, each.context_expr, False, True) for each in statement.items if each.optional_vars is not None)


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement; not those of statements within."""
    for each in ast.iter_child_nodes(statement):
        if isinstance(each, ast.expr):
            yield each
        elif isinstance(each, ast.withitem):
            yield each.context_expr


def _targets(statement: ast.stmt, target: ast.expr, value: ast.expr, *, several: bool) -> Iterator[tuple[str, Binding]]:
    """The names of a target: ``a, b = x, y`` binds each to its own value."""
    if isinstance(target, ast.Name):
        yield target.id, Binding(statement, value, several)
    elif isinstance(target, ast.Attribute | ast.Subscript):
        if is_kept_form(target):
            yield ast.unparse(target), Binding(statement, value, several)
    elif isinstance(target, ast.Starred):
        yield from _targets(statement, target.value, value, several=True)
    elif isinstance(target, ast.Tuple | ast.List):
        given = value.elts if isinstance(value, ast.Tuple | ast.List) and not several else []
        paired = len(given) == len(target.elts) and not any(isinstance(each, ast.Starred) for each in (*given, *target.elts))
        for at, each in enumerate(target.elts):
            yield from _targets(statement, each, given[at] if paired else value, several=several or not paired)


def is_passing(node: ast.expr, around: Sequence[ast.AST]) -> bool:
    """Whether what reads a tensor keeps nothing of it: its shape, or what makes a new tensor."""
    inner: ast.AST = node
    for at in range(len(around) - 1, -1, -1):
        parent, outer = around[at], around[at - 1] if at else None
        if isinstance(parent, ast.Attribute):
            if parent.attr in _OF_FORM:
                return True
            called = isinstance(outer, ast.Call) and outer.func is parent
            if called and parent.attr in NEW | _TOLD:
                return True
            if (parent.attr not in VIEWED) if called else (parent.attr not in VIEWS):
                return False
        elif isinstance(parent, ast.Call) and parent.func is not inner:
            return inner in parent.args and (getattr(parent.func, "attr", "") in NEW or getattr(parent.func, "id", "") in _TELLING)
        elif not isinstance(parent, ast.Call) and not (isinstance(parent, ast.Subscript) and parent.value is inner):
            return isinstance(parent, (ast.BinOp, ast.Compare, *_ENDING))
        inner = parent
    return False
