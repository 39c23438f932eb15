"""Where an argument of a layer comes from: the call of a helper that hands it on decided on it, not the helper."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

from paralign.adapters._kinds import common_argument, names_of_argument
from paralign.locate.source.bindings import Code
from paralign.locate.source.statements import parsed
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: arguments of convolutions in the order in which both frameworks take them
_ORDER = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def differing(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> set[str]:
    """The names, as calls write them, of the arguments that two operations have with other values."""
    theirs = {common_argument(name): value for name, value in reference.items()}
    found: set[str] = set()
    for name, value in candidate.items():
        argument = common_argument(name)
        if argument in theirs and theirs[argument] != value:
            found |= names_of_argument(argument)
    return found


def differing_values(candidate: Mapping[str, Any], reference: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The values of arguments that both have under one name, and that differ: the candidate's and the reference's."""
    theirs = {common_argument(name): value for name, value in reference.items()}
    pairs = [(value, theirs[common_argument(name)]) for name, value in candidate.items() if common_argument(name) in theirs]
    return [(own, due) for own, due in pairs if not is_equal(own, due)]


def is_equal(own: Any, due: Any) -> bool:
    """Whether two values of an argument mean the same; what is true or false on one side is not compared."""
    if isinstance(own, bool) or _spread(own) == _spread(due):
        return True
    return is_number(own) and is_number(due) and math.isclose(own + due, 1.0, rel_tol=1e-9)  # what is kept of a statistic, or taken anew


def _spread(value: Any) -> Any:
    """A list of equal values as the one value: a stride of ``[1, 1]`` is a stride of 1."""
    if isinstance(value, (list, tuple)) and value and all(item == value[0] for item in value):
        return value[0]
    return list(value) if isinstance(value, tuple) else value


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not true or false."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def argument_line(lines: Sequence[str], names: set[str]) -> str | None:
    """The line whose call gives an argument its value, where those within only hand it on as their own parameter; None if none does.

    Args:
        lines: those that led to the construction of a layer, the innermost first, each ``file:line``.
        names: what the argument may be called in the innermost call.
    """
    found = _decided(lines, names)
    return found[0] if found is not None else None


def bound_line(lines: Sequence[str], names: set[str]) -> str | None:
    """The line where an argument was bound to what the innermost line calls (``partial``, a lambda); None where none was.

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
        bound = Code(at).value_of(value) if value is not None else None
        if isinstance(bound, ast.Name):
            bound = _global(at, bound.id)
        words = [k.value.lineno for n in (ast.walk(bound) if bound is not None else ()) if isinstance(n, ast.Call) for k in n.keywords
                 if k.arg in names]  # fmt: skip
        if len(words) == 1:
            return f"{at.rpartition(':')[0]}:{words[0]}"
    return None


def _handed(lines: Sequence[str], function: Function | None, name: str) -> tuple[str, ast.expr | None]:
    """Where a name that the innermost line reads got its value, and that value as it is written there."""
    parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)] if function else []
    if function is None or name not in parameters or _is_bound(function, name):
        return lines[0], ast.Name(name)
    own = 1 if parameters[0] in ("self", "cls") else 0
    line, _, value = _followed(lines[1:], {name}, {parameters.index(name) - own}) or (lines[0], None, None)
    return line, value


def _callees(line: str) -> tuple[Function | None, list[str]]:
    """The function around a line, and the names that the line calls."""
    function, nodes = _around(line)
    number = _number(line)
    return function, [n.func.id for n in nodes if isinstance(n, ast.Call) and n.lineno == number and isinstance(n.func, ast.Name)]


def _number(line: str) -> int:
    place = SourceLine.of(line)
    return 0 if place is None else place.line


def _global(line: str, name: str) -> ast.expr | None:
    """What a file assigns to a name outside of functions and classes, where it does so once."""
    place = SourceLine.of(line)
    tree = None if place is None else parsed(place.file)
    found = [n.value for n in (tree.body if tree else ()) if isinstance(n, ast.Assign) for t in n.targets if _names(t) == {name}]
    return found[0] if len(found) == 1 else None


def table_line(lines: Sequence[str], names: set[str]) -> tuple[str, str] | None:
    """The line of the table whose rows give an argument its value, round by round, and before it the line of the call in the loop.

    None where the call is in no loop over a list or tuple that is written in its function or file.

    Args:
        lines: those that led to the construction of a layer, the innermost first, each ``file:line``.
        names: what the argument may be called in the innermost call.
    """
    line, function, value = _decided(lines, names) or ("", None, None)
    place = SourceLine.of(line)
    tree = parsed(place.file) if place is not None and value is not None else None
    if tree is None or value is None or place is None:
        return None
    assigned = [n for place in (function, tree) if place is not None for n in ast.walk(place) if isinstance(n, ast.Assign)]
    read = _names(value)
    for each in reversed([n for n in assigned if n.lineno < place.line]):  # what it is computed of
        read |= _names(each.value) if any(_names(target) & read for target in each.targets) else set()
    loops = [n for n in ast.walk(function or tree) if isinstance(n, ast.For) and n.lineno <= place.line <= (n.end_lineno or 0)]
    for loop in (each for each in loops if read & _names(each.target)):
        tables = [n for n in assigned if isinstance(n.value, ast.List | ast.Tuple) and n.lineno < loop.lineno]
        named = [n.lineno for n in tables if any(_names(target) & _names(loop.iter) for target in n.targets)]
        if named or isinstance(loop.iter, ast.List | ast.Tuple):
            return line, str(place.at((named or [loop.iter.lineno])[0]))
    return None


def _names(tree: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def _decided(lines: Sequence[str], names: set[str]) -> tuple[str, Function | None, ast.expr | None] | None:
    """The line whose call gives an argument its value, the function around it, and that value as it is written there.

    There is no value where the call leaves it to the default of the function that it calls.
    """
    return _followed(lines, names, {_ORDER.index(name) for name in names if name in _ORDER}) if names else None


def _followed(lines: Sequence[str], names: set[str], places: set[int]) -> tuple[str, Function | None, ast.expr | None] | None:
    """As ``_decided``, of an argument that the innermost call takes by these names, or at these places."""
    optional = False
    for line in lines:
        function, value = _given(line, names, places)
        if value is None:
            return (line, function, None) if optional and _is_plain(line) else None
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)] if function else []
        if function is None or not isinstance(value, ast.Name) or value.id not in parameters or _is_bound(function, value.id):
            return line, function, value
        names, own = {value.id}, 1 if parameters[0] in ("self", "cls") else 0
        places, optional = {parameters.index(value.id) - own}, value.id in _optional(function)
    return None


def _optional(function: Function) -> set[str]:
    """The parameters that a call may leave out."""
    given = function.args
    named = [a.arg for a in (*given.posonlyargs, *given.args)]
    by_name = {a.arg for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None}
    return by_name | set(named[len(named) - len(given.defaults) :])


def _is_plain(line: str) -> bool:
    """Whether one call begins in a line, and says which arguments it gives."""
    place = SourceLine.of(line)
    tree = None if place is None else parsed(place.file)
    if place is None or tree is None:
        return False
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == place.line]
    given = [v for call in calls for v in (*call.args, *call.keywords)]
    return len(calls) == 1 and not any(isinstance(v, ast.Starred) or (isinstance(v, ast.keyword) and v.arg is None) for v in given)


def _given(line: str, names: set[str], places: set[int]) -> tuple[Function | None, ast.expr | None]:
    """The function around a line, and what its call gives for an argument; None where that is not said there, or more than once."""
    function, nodes = _around(line)
    number = _number(line)
    calls = [n for n in nodes if isinstance(n, ast.Call) and n.lineno == number] or [n for n in nodes if isinstance(n, ast.Call)]
    found = [k.value for call in calls for k in call.keywords if k.arg in names]
    if not found:
        plain = [call for call in calls if not any(isinstance(a, ast.Starred) for a in call.args)]
        found = [call.args[place] for call in plain for place in places if place < len(call.args)]
    return function, found[0] if len(found) == 1 else None


def _around(line: str) -> tuple[Function | None, list[ast.expr | ast.stmt]]:
    """The function around a line, and every part of the file that the line is a part of."""
    place = SourceLine.of(line)
    tree = None if place is None else parsed(place.file)
    if place is None or tree is None:
        return None, []
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt) and n.lineno <= place.line <= (n.end_lineno or 0)]
    return next((n for n in reversed(nodes) if isinstance(n, Function)), None), nodes  # breadth first: the innermost is the last


def _is_bound(function: Function, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))
