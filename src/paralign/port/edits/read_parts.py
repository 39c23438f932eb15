"""Parts of a tensor that are read after the whole was changed in place."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from paralign.port.edits.changing import Change, changes_of
from paralign.port.edits.held_parts import Whole, part_of
from paralign.port.edits.kept_tensors import is_stored_new
from paralign.port.edits.scope_index import FUNCTIONS, Binding, Scope, behind, functions_of, place_of, scope_of
from paralign.port.edits.tensor_results import VIEWED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paralign.port.edits.scope_index import Read

#: how a part became one, the plainest first
_KINDS = ("view", "index", "split", "copy")

#: parts of parts that are followed
_DEEP = 4


class ReadPart(NamedTuple):
    """A tensor that a statement changes, and the part of it that is read later.

    ``names`` are those of the parts, empty where one has none.
    """

    whole: ast.expr
    kind: str
    names: tuple[str, ...] = ()


class _Part(NamedTuple):
    """What stands for a part: a name, or what a container named ``keeper`` holds."""

    name: str
    bound: Binding
    kind: str
    stored: bool = False


def read_parts(statement: ast.stmt, around: Sequence[ast.AST]) -> list[ReadPart]:
    """The tensors that a statement changes, and the kinds of parts that are read later."""
    scopes = [each for each in around if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
    if not scopes or isinstance(scopes[-1], ast.Lambda | ast.ClassDef):
        return []
    functions = functions_of(scopes[0])
    for each in scopes:
        if isinstance(each, (*FUNCTIONS, ast.Module)):
            scope_of(each).functions = functions
    found = []
    for change in changes_of(statement, scopes[0]):
        root = change.whole
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        scope = _scope_of_name(root.id if isinstance(root, ast.Name) else "", scopes)
        parts = list(_read_parts(change, statement, around, scope, inner=scope is not scope_of(scopes[-1])))
        if parts:
            kind = max((each.kind for each in parts), key=_KINDS.index)
            names = () if any(each.stored for each in parts) else tuple(dict.fromkeys(each.name for each in parts))
            found.append(ReadPart(change.whole, kind, names))
    return found


def _scope_of_name(name: str, scopes: Sequence[ast.AST]) -> Scope:
    """The innermost function that binds a name; the module where none does."""
    for each in reversed(scopes):
        if isinstance(each, (*FUNCTIONS, ast.Module)):
            scope = scope_of(each)
            if name in scope.bindings or name in scope.given or isinstance(each, ast.Module):
                return scope
    return scope_of(scopes[-1])


def _read_parts(change: Change, statement: ast.stmt, around: Sequence[ast.AST], scope: Scope, *, inner: bool) -> Iterator[_Part]:
    """The parts of what is changed that are read later, of all names of it."""
    repeated = [statement] if isinstance(statement, ast.While) else []
    loops = [*(each for each in around if isinstance(each, ast.For | ast.AsyncFor | ast.While)), *repeated]
    own = ast.unparse(change.whole)
    for spelled in (own, *_other_names(own, statement, scope, inner=inner)):
        for each in _parts_of(scope).get(spelled, []):
            if change.past and each.kind not in ("copy", "split"):
                continue
            if change.at is not None and not _meets(each.bound.value, change.whole, change.at):
                continue
            if each.kind in ("view", "index") and _is_shift(statement) and (each.kind == "index" or not _is_view(own, statement, scope)):
                continue
            if (
                inner
                or change.late
                or _is_before(each, spelled, statement, around, scope, loops)
                or _is_read_beside(each, change, statement, scope)
            ):
                yield each
    if isinstance(change.whole, ast.Attribute) and not any(
        place_of(each.statement) < place_of(statement) for each in scope.bindings.get(own, [])
    ):
        yield from (each for each in _parts_elsewhere(change.whole, around) if not change.past or each.kind in ("copy", "split"))


def _is_read_beside(part: _Part, change: Change, statement: ast.stmt, scope: Scope) -> bool:
    """Whether the statement that changes a whole reads its part too, beside the change.

    What is read before keeps the values of then where arithmetic takes them: ``y.sum() + x.add_(1)``.
    """
    call = change.call
    if call is None or part.stored or place_of(part.bound.statement) >= place_of(statement):
        return False
    start, end, last = place_of(call), _end_of(call), behind(statement)
    reads = [each for each in scope.reads.get(part.name, []) if place_of(statement) <= each.place < last and not start <= each.place < end]
    return any(each.place >= end or not each.passing for each in reads)


def _parts_elsewhere(attribute: ast.Attribute, around: Sequence[ast.AST]) -> Iterator[_Part]:
    """The parts of an attribute that other methods keep under attributes.

    Of ``self`` those of its class; of another object those of any class of the file.
    """
    spelled = ast.unparse(attribute)
    if not spelled.startswith("self."):
        yield from _kept_anywhere(around[0]).get(f"self.{attribute.attr}", [])
        return
    classes = [each for each in around if isinstance(each, ast.ClassDef)]
    for method, part in _kept_in(classes[-1]).get(spelled, []) if classes else []:
        if method not in around:
            yield part


@lru_cache(maxsize=4)
def _kept_anywhere(module: ast.AST) -> dict[str, list[_Part]]:
    """The parts that all classes of a file keep under attributes, by wholes."""
    found: dict[str, list[_Part]] = defaultdict(list)
    for owner in ast.walk(module):
        for spelled, parts in _kept_in(owner).items() if isinstance(owner, ast.ClassDef) else ():
            found[spelled] += [part for _, part in parts]
    return found


@lru_cache(maxsize=16)
def _kept_in(owner: ast.ClassDef) -> dict[str, list[tuple[ast.stmt, _Part]]]:
    """The parts that a class keeps under attributes, and their methods, by wholes."""
    found: dict[str, list[tuple[ast.stmt, _Part]]] = defaultdict(list)
    for method in owner.body:
        for spelled, parts in _parts_of(scope_of(method)).items() if isinstance(method, FUNCTIONS) else ():
            found[spelled] += [(method, each) for each in parts if each.name.startswith("self.")]
    return found


def _is_before(part: _Part, spelled: str, statement: ast.stmt, around: Sequence[ast.AST], scope: Scope, loops: Sequence[ast.stmt]) -> bool:
    """Whether a part is made before a statement changes its whole, and read behind it."""
    made = part.bound.statement
    if place_of(made) >= place_of(statement):
        return any(_is_carried(part, spelled, statement, loop, scope) for loop in loops if _is_within(made, loop))
    if _is_bound_between(spelled, scope, made, statement) or _is_other_branch(made, around):
        return False
    if part.stored:
        return not part.name or _is_read_after(part.name, part.bound, statement, scope, loops)
    if _is_made_anew(part.name, made, statement, scope):
        return False
    return _is_read_after(part.name, part.bound, statement, scope, loops) or any(
        each.keeping and place_of(made) < each.place < place_of(statement) for each in scope.reads.get(part.name, [])
    )


def _is_carried(part: _Part, spelled: str, statement: ast.stmt, loop: ast.stmt, scope: Scope) -> bool:
    """Whether a part that a loop makes behind a change is read after the next time's change."""
    made = part.bound.statement
    anew = [each.statement for each in scope.bindings.get(spelled, []) if _is_within(each.statement, loop)]
    if any(place_of(each) > place_of(made) or place_of(each) < place_of(statement) for each in anew):
        return False
    if part.stored:
        kept = [each for each in scope.bindings.get(part.name, []) if _is_within(each.statement, loop)]
        return not kept or not part.name
    reads = scope.reads.get(part.name, [])
    kept_there = any(each.keeping and place_of(loop) <= each.place < _end_of(loop) for each in reads)
    if loop is statement and any(each.place >= _end_of(loop) for each in reads):  # its condition is asked once more
        return True
    return kept_there or any(behind(statement) <= each.place < place_of(made) for each in reads)


def _is_within(statement: ast.stmt, loop: ast.stmt) -> bool:
    return statement is not loop and place_of(loop) <= place_of(statement) < _end_of(loop)


def _is_other_branch(made: ast.stmt, around: Sequence[ast.AST]) -> bool:
    """Whether a part is made where a condition holds, and a statement runs where it does not."""
    branches = [each for each in around if isinstance(each, ast.If) and any(inner in around for inner in each.orelse)]
    return any(place_of(each.body[0]) <= place_of(made) <= _end_of(each.body[-1]) for each in branches)


def _other_names(spelled: str, statement: ast.stmt, scope: Scope, *, inner: bool) -> list[str]:
    """The other names of a tensor where a statement changes it."""
    names = [spelled]
    for each in names:
        for first, second, bound in _same(scope).get(each, []):
            other = second if first == each else first
            if other in names:
                continue
            kept = not any(_is_bound_between(name, scope, bound, statement) for name in (first, second))
            if inner or (place_of(bound) < place_of(statement) and kept):
                names.append(other)
    return names[1:]


@lru_cache(maxsize=16)
def _same(scope: Scope) -> dict[str, list[tuple[str, str, ast.stmt]]]:
    """Names that were given one tensor, and where; by each of the two."""
    found: list[tuple[str, str, ast.stmt]] = []
    together: dict[int, str] = {}
    for name, bound in scope.bindings.items():
        for each in bound:
            if not each.several and isinstance(each.value, ast.Name | ast.Attribute | ast.Subscript) and _is_plain(each.value):
                found.append((name, ast.unparse(each.value), each.statement))
            first = together.setdefault(id(each.value), name)
            if each.twice and not each.several and first != name:
                found.append((first, name, each.statement))
    by_name: dict[str, list[tuple[str, str, ast.stmt]]] = defaultdict(list)
    for same in found:
        for name in {*same[:2]}:
            by_name[name].append(same)
    return by_name


@lru_cache(maxsize=16)
def _parts_of(scope: Scope) -> dict[str, list[_Part]]:
    """What stands for parts, by their wholes as these are written."""
    found: dict[str, list[_Part]] = defaultdict(list)
    for name, bound in scope.bindings.items():
        for each in bound:
            for spelled, kind in _wholes(each, scope, 0):
                if spelled != name:
                    found[spelled].append(_Part(name, each, kind, stored=not name.isidentifier()))
    for stored in scope.stored:
        bound_to = Binding(stored.statement, stored.value, stored.several)
        for spelled, kind in _wholes(bound_to, scope, 0):
            found[spelled].append(_Part(stored.keeper, bound_to, kind, stored=True))
    return found


def _wholes(bound: Binding, scope: Scope, depth: int) -> Iterator[tuple[str, str]]:
    """The tensors that a value is a part of, also through other parts, and how."""
    part = part_of(bound.value, several=bound.several, scope=scope)
    if part is None:
        return
    for whole in dict.fromkeys((part.tensor, *part.others)):
        yield ast.unparse(whole), part.kind
        yield from _behind(whole, part, bound, scope, depth)


def _behind(whole: ast.expr, part: Whole, bound: Binding, scope: Scope, depth: int) -> Iterator[tuple[str, str]]:
    """What a part's whole is a part of itself."""
    before = [each for each in scope.bindings.get(ast.unparse(whole), []) if place_of(each.statement) < place_of(bound.statement)]
    if before and depth < _DEEP:
        for spelled, kind in _wholes(before[-1], scope, depth + 1):
            yield spelled, max(kind, part.kind, key=_KINDS.index)


def _is_view(name: str, statement: ast.stmt, scope: Scope) -> bool:
    """Whether a tensor is a view, which a sign makes anew: its parts stay as they were."""
    before = [each for each in scope.bindings.get(name, []) if place_of(each.statement) < place_of(statement)]
    value = before[-1].value if before else None
    called = getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""
    return isinstance(statement, ast.AugAssign) and called in VIEWED


def _is_shift(statement: ast.stmt) -> bool:
    """Whether a statement adds a literal number, which changes no gradient."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add | ast.Sub) and isinstance(statement.value, ast.Constant)
    call = statement.value if isinstance(statement, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if not isinstance(call, ast.Call) or method is None or isinstance(method.value, ast.Call):
        return False
    return method.attr in ("add_", "sub_") and all(isinstance(each, ast.Constant) for each in call.args)


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a name, or what an attribute or a text's key keeps."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in ("data", "grad"):
            return False
        if isinstance(node, ast.Subscript) and not isinstance(getattr(node.slice, "value", None), str):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def _meets(value: ast.expr, whole: ast.expr, index: ast.expr) -> bool:
    """Whether a write at an index certainly meets the elements of a part."""
    if ast.unparse(index) in (":", "...") or not isinstance(value, ast.Subscript) or ast.unparse(value.value) != ast.unparse(whole):
        return True
    written, read = (each.elts if isinstance(each, ast.Tuple) else [each] for each in (index, value.slice))
    pairs = list(zip(written, read, strict=False))
    if any(getattr(each, "value", 0) is Ellipsis for each in (*written, *read)):
        return ast.unparse(index) == ast.unparse(value.slice)
    return all(
        ast.unparse(first) == ast.unparse(second) or ast.unparse(first) == ":" or ast.unparse(second) == ":" for first, second in pairs
    ) and all(isinstance(each, ast.Constant | ast.UnaryOp | ast.Slice) for each in written)


def _is_bound_between(spelled: str, scope: Scope, first: ast.stmt, last: ast.stmt) -> bool:
    return any(place_of(first) < place_of(each.statement) < place_of(last) for each in scope.bindings.get(spelled, []))


def _is_made_anew(name: str, first: ast.stmt, last: ast.stmt, scope: Scope) -> bool:
    """Whether a name that stood for a part is always given a new tensor before a statement."""
    between = [each for each in scope.bindings.get(name, []) if place_of(first) < place_of(each.statement) < place_of(last)]
    sure = [each for each in between if scope.lists.get(id(each.statement)) == scope.lists.get(id(first))]
    return any(not each.several and is_stored_new(each.value) for each in sure)


def _is_read_after(name: str, bound: Binding, statement: ast.stmt, scope: Scope, loops: Sequence[ast.stmt]) -> bool:
    """Whether a part's name is read behind a statement, before it is bound anew."""
    end, rebound = behind(statement), scope.rebound(name, statement)
    around = [each for each in loops if not place_of(each) <= place_of(bound.statement) < _end_of(each)]
    reads: list[Read] = scope.reads.get(name, [])
    for each in reads:
        if each.within or any(place_of(loop) <= each.place < _end_of(loop) for loop in around):
            return True
        if each.place >= end and (rebound is None or each.place < rebound):
            return True
    return False


def _end_of(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
