"""Where an argument of a layer comes from: the call of a helper that hands it on."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import common_argument, names_of_argument
from paralign.locate.source.bindings import Code
from paralign.locate.source.statements import names_in, parsed, parsed_line
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paralign.locate.source.statements import ParsedLine

#: arguments of convolutions in the order in which both frameworks take them
_ORDER = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Decision:
    """The line whose call gives an argument its value, its function, and that value.

    There is no value where the call leaves it to the default of the function that it calls.
    """

    line: str
    function: Function | None
    value: ast.expr | None


def differing(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> set[str]:
    """The names, as calls write them, of arguments with other values on the two sides."""
    theirs = {common_argument(name): value for name, value in reference.items()}
    found: set[str] = set()
    for name, value in candidate.items():
        argument = common_argument(name)
        if argument in theirs and theirs[argument] != value:
            found |= names_of_argument(argument)
    return found


def differing_values(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The differing values of arguments of one name: the candidate's and the reference's."""
    return [(own, due) for _, own, due in differing_arguments(candidate, reference)]


def differing_arguments(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """As :func:`differing_values`, behind the common name of each argument."""
    theirs = {common_argument(name): value for name, value in reference.items()}
    found = []
    for name, own in candidate.items():
        argument = common_argument(name)
        if argument in theirs and not is_equal(own, theirs[argument]):
            found.append((argument, own, theirs[argument]))
    return found


def is_equal(own: Any, due: Any) -> bool:
    """Whether two values of an argument mean the same; a bool beside no bool does."""
    if isinstance(own, bool) or _spread(own) == _spread(due):
        return True
    if not is_number(own) or not is_number(due):
        return False
    return math.isclose(own + due, 1.0, rel_tol=1e-9)  # what is kept of a statistic, or taken anew


def _spread(value: Any) -> Any:
    """A list of equal values as the one value: a stride of ``[1, 1]`` is a stride of 1."""
    if isinstance(value, (list, tuple)) and value and all(item == value[0] for item in value):
        return value[0]
    return list(value) if isinstance(value, tuple) else value


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not true or false."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def argument_line(lines: Sequence[str], names: set[str]) -> str | None:
    """The line whose call gives an argument its value; None without one.

    The calls within only hand it on as their own parameter.

    Args:
        lines: those that led to the construction of a layer, the innermost first, each ``file:line``.
        names: what the argument may be called in the innermost call.
    """
    found = _decided(lines, names)
    return None if found is None else found.line


def bound_line(lines: Sequence[str], names: set[str]) -> str | None:
    """The line where an argument was bound to what the innermost line calls.

    What is called is followed through helpers that hand it on as their own parameter.

    Args:
        lines: as in :func:`argument_line`.
        names: what the argument may be called.
    """
    if not lines or _given(lines[0], names, set())[1] is not None:
        return None
    function, called = _callees(lines[0])
    for name in called:
        at, value = _handed(lines, function, name)
        bound = None if value is None else Code(at).value_of(value)
        if isinstance(bound, ast.Name):
            bound = _global(at, bound.id)
        if bound is None:
            continue
        words = _keyword_lines(bound, names)
        if len(words) == 1:
            return f"{at.rpartition(':')[0]}:{words[0]}"
    return None


def _keyword_lines(expression: ast.expr, names: set[str]) -> list[int]:
    """The lines of an expression at which its calls give an argument by name."""
    found = []
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            found += [keyword.value.lineno for keyword in node.keywords if keyword.arg in names]
    return found


def _handed(lines: Sequence[str], function: Function | None, name: str) -> tuple[str, ast.expr | None]:
    """Where a name that the innermost line reads got its value, and that value."""
    if function is None or not _hands_on(function, name):
        return lines[0], ast.Name(name)
    decided = _followed(lines[1:], {name}, {_place_in_call(function, name)})
    return (lines[0], None) if decided is None else (decided.line, decided.value)


def _parameters(function: Function) -> list[str]:
    """The names of a function's parameters."""
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _hands_on(function: Function, name: str) -> bool:
    """Whether a name is a parameter of a function, and nothing else is assigned to it there."""
    return name in _parameters(function) and not _is_bound(function, name)


def _place_in_call(function: Function, name: str) -> int:
    """The place at which a call gives a parameter: the object of a method is not given."""
    parameters = _parameters(function)
    own = 1 if parameters[0] in ("self", "cls") else 0
    return parameters.index(name) - own


def _callees(line: str) -> tuple[Function | None, list[str]]:
    """The function around a line, and the names that the line calls."""
    function, nodes = _around(line)
    number = _number(line)
    names = []
    for node in nodes:
        if not isinstance(node, ast.Call) or node.lineno != number:
            continue
        if isinstance(node.func, ast.Name):
            names.append(node.func.id)
    return function, names


def _number(line: str) -> int:
    place = SourceLine.of(line)
    return 0 if place is None else place.line


def _global(line: str, name: str) -> ast.expr | None:
    """What a file assigns to a name outside of functions and classes, where it does so once."""
    place = SourceLine.of(line)
    tree = None if place is None else parsed(place.file)
    if tree is None:
        return None
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    found = [node.value for node in assigned for target in node.targets if names_in(target) == {name}]
    return found[0] if len(found) == 1 else None


def _assignments(scope: ast.AST | None) -> list[ast.Assign]:
    """The assignments of a function or file."""
    if scope is None:
        return []
    return [node for node in ast.walk(scope) if isinstance(node, ast.Assign)]


def _assigned_names(store: ast.Assign) -> set[str]:
    """The names in the targets of an assignment."""
    return {name for target in store.targets for name in names_in(target)}


def _decided(lines: Sequence[str], names: set[str]) -> Decision | None:
    """Where a layer's argument got its value; None where that cannot be told."""
    places = {_ORDER.index(name) for name in names if name in _ORDER}
    return _followed(lines, names, places) if names else None


def _followed(lines: Sequence[str], names: set[str], places: set[int]) -> Decision | None:
    """As ``_decided``, of an argument that the innermost call takes by name or place."""
    optional = False
    for line in lines:
        function, value = _given(line, names, places)
        if value is None:
            if optional and _is_plain(line):
                return Decision(line, function, None)
            return None
        if function is None or not isinstance(value, ast.Name) or not _hands_on(function, value.id):
            return Decision(line, function, value)
        names, places = {value.id}, {_place_in_call(function, value.id)}
        optional = value.id in _optional(function)
    return None


def _optional(function: Function) -> set[str]:
    """The parameters that a call may leave out."""
    given = function.args
    named = [a.arg for a in (*given.posonlyargs, *given.args)]
    by_name = {a.arg for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None}
    return by_name | set(named[len(named) - len(given.defaults) :])


def _is_plain(line: str) -> bool:
    """Whether one call begins in a line, and says which arguments it gives."""
    known = parsed_line(line)
    if known is None:
        return False
    calls = _calls(ast.walk(known.tree), known.place.line)
    if len(calls) != 1:
        return False
    by_keyword = all(keyword.arg is not None for keyword in calls[0].keywords)
    return by_keyword and not _has_starred(calls[0])


def _calls(nodes: Iterable[ast.AST], line: int | None = None) -> list[ast.Call]:
    """The calls among some parts of code; with ``line`` those that begin there."""
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if line is None:
        return calls
    return [call for call in calls if call.lineno == line]


def _has_starred(call: ast.Call) -> bool:
    """Whether a call spreads a list over its arguments: then places are not known."""
    return any(isinstance(value, ast.Starred) for value in call.args)


def _given(line: str, names: set[str], places: set[int]) -> tuple[Function | None, ast.expr | None]:
    """The function around a line, and what its call gives for an argument.

    There is no value where that is not said there, or more than once.
    """
    function, nodes = _around(line)
    calls = _calls(nodes, _number(line)) or _calls(nodes)
    found = [keyword.value for call in calls for keyword in call.keywords if keyword.arg in names]
    if not found:
        found = [value for call in calls for value in _at_places(call, places)]
    return function, found[0] if len(found) == 1 else None


def _at_places(call: ast.Call, places: set[int]) -> list[ast.expr]:
    """The arguments of a call at some places; none where a list is spread over them."""
    if _has_starred(call):
        return []
    return [call.args[place] for place in places if place < len(call.args)]


def _around(line: str) -> tuple[Function | None, list[ast.expr | ast.stmt]]:
    """The function around a line, and every part of the file that the line is a part of."""
    known = parsed_line(line)
    if known is None:
        return None, []
    nodes = _parts_around(known)
    for node in reversed(nodes):  # breadth first: the innermost is the last
        if isinstance(node, Function):
            return node, nodes
    return None, nodes


def _parts_around(known: ParsedLine) -> list[ast.expr | ast.stmt]:
    """Every part of a file that a line is a part of."""
    found = []
    for node in ast.walk(known.tree):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        if node.lineno <= known.place.line <= (node.end_lineno or 0):
            found.append(node)
    return found


def _is_bound(function: Function, name: str) -> bool:
    """Whether a function assigns a name."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        if isinstance(node.ctx, ast.Store):
            return True
    return False
