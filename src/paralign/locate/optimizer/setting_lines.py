"""Where in the user's files a setting is written."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.locate.optimizer.read_config import WORDS, setting
from paralign.locate.source.bindings import Code
from paralign.model import SourceLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paralign.locate.optimizer.identify import Difference
    from paralign.locate.optimizer.update_rules import Terms
    from paralign.worker.protocol import Updated

#: term -> words by which its setting is written in a call or a parameter group
WRITTEN = {
    "rates": ("lr", "learning_rate"),
    "decay": ("weight_decay", "apply_decay_param_fun"),
    "clip": ("grad_clip",),
    "first": ("momentum", "beta1", "betas"),
    "second": ("alpha", "rho", "beta2", "betas"),
    "eps": ("eps", "epsilon"),
    "place": ("eps", "epsilon"),
    "nesterov": ("nesterov", "use_nesterov"),
    "moves": ("parameters", "params"),
    "sign": ("maximize",),
}

#: terms that are numbers
_NUMBERS = ("first", "second", "eps", "dampening", "decay")

#: numbers that differ by less than this share are one
_SAME = 1e-6


def setting_line(source: str | None, term: str) -> str | None:
    """The line that writes a setting in the call at ``source``, else the call's own."""
    place = SourceLine.of(source)
    if place is None:
        return source
    try:
        tree = ast.parse(Path(place.file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return source
    words = (*WRITTEN.get(term, ()), *WORDS.get(term, ()))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= place.line <= (n.end_lineno or n.lineno)]
    for call in sorted(calls, key=lambda c: (c.end_lineno or c.lineno) - c.lineno):
        found = [k.value.lineno for k in call.keywords if k.arg in words]
        if len(found) == 1:
            return str(place.at(found[0]))
    return source


def term_line(answer: Updated, term: str, layer: str | None, *, varies: bool) -> str | None:
    """The line that sets a term: a schedule's, a parameter's, or the optimizer's call.

    Args:
        answer: of the task ``update``.
        term: that differs, '' where none is known.
        layer: the line that constructed the layer of a parameter concerned.
        varies: whether the learning rates change from step to step.
    """
    built, about = answer.built, answer.optimizer
    if term == "rates":
        if varies and built["scheduler"]:
            return str(built["scheduler"])
        if any(own.get("rate", 1.0) != 1.0 for own in about["parameters"].values()) and len(about["groups"]) == 1:
            return layer or built["optimizer"]
    return setting_line(built["optimizer"], term)


def is_given(arguments: Mapping[str, Any], term: str, reference: Any, candidate: Any) -> bool:
    """Whether the optimizer's call gave it the candidate's value of a differing term."""
    words = (*WRITTEN.get(term, ()), *WORDS.get(term, ()))
    given = [value for name, value in arguments.items() if name in words]
    numbers = [number for value in given for number in (value if isinstance(value, list) else [value])]
    if reference == candidate:
        return False
    if not any(_equal(number, candidate) for number in numbers):
        return False
    return not any(_equal(n, reference) for n in numbers)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if not (isinstance(one, (int, float)) and isinstance(other, (int, float))):
        return False
    return abs(one - other) <= _SAME * max(abs(one), abs(other))


def group_line(source: str | None, term: str, group: int) -> str | None:
    """The line that chooses the parameters of a group that a call hands over, or None.

    Args:
        source: the line of the call.
        term: the setting that some parameters have wrongly; ``moves`` where they are in no group.
        group: the group's number.
    """
    code = Code(source)
    calls = [n for n in code.here() if isinstance(n, ast.Call)]
    given = [k.value for call in calls for k in call.keywords if k.arg in WRITTEN["moves"]] + [a for call in calls for a in call.args[:1]]
    for value in given:
        groups = code.value_of(value)
        one = None
        if isinstance(groups, (ast.List, ast.Tuple)) and group < len(groups.elts):
            one = groups.elts[group]
        if isinstance(one, ast.Dict):
            pairs = zip(one.keys, one.values, strict=True)
            for key, parameters in pairs:
                if isinstance(key, ast.Constant) and key.value == "params":
                    return code.filled(parameters)
            return None
        if term == "moves" and isinstance(value, ast.Name):
            return code.filled(value)
    return None


#: settings of Paddle's optimizers that choose which parameters decay, by a function of their names
_EXEMPTING = ("apply_decay_param_fun", "exclude_from_weight_decay_fn")


def exempting_line(source: str | None) -> str | None:
    """The line that chooses which parameters decay, given as a function; None without.

    Args:
        source: the line of the call.
    """
    code = Code(source)
    calls = [node for node in code.here() if isinstance(node, ast.Call)]
    given = [keyword.value for call in calls for keyword in call.keywords if keyword.arg in _EXEMPTING]
    if len(given) != 1:
        return None
    chooser = given[0]
    defined = code.defined(chooser.id) if isinstance(chooser, ast.Name) else None
    body: ast.AST = defined or chooser
    for name in _free_names(body):
        if code.assigned(name.id) is not None:
            return code.filled(name)
    returned = [node.lineno for node in ast.walk(body) if isinstance(node, ast.Return)]
    return code.at(returned[-1] if returned else chooser.lineno)


def _free_names(function: ast.AST) -> list[ast.Name]:
    """The names that a function reads and that are none of its arguments."""
    own: set[str] = set()
    read: list[ast.Name] = []
    for node in ast.walk(function):
        if isinstance(node, ast.arguments):
            own |= {argument.arg for argument in node.args}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.append(node)
    return [name for name in read if name.id not in own]


def kept_line(
    source: str | None, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], reference: Terms | None, blamed: Difference | None
) -> str | None:
    """The constructor's line that keeps another number than the reference has.

    A line of the optimizer's step reads it.

    Args:
        source: the line of the step.
        abouts: what both optimizers say of themselves.
        reference: the reference's rule, None where it is not known.
        blamed: the first difference of the rules, None where none is known.
    """
    theirs = {**abouts[0]["settings"], **next(iter(abouts[0]["groups"]), {})}
    code = Code(source)
    for attribute in code.attributes:
        name = attribute.lstrip("_")
        value, line = abouts[1]["settings"].get(name), code.setting(attribute)
        if line is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        terms = [t for t in _NUMBERS if reference is not None and setting(t, {name: value}, reference.family) is not None]
        due = [getattr(reference, t) for t in terms]
        if not due and isinstance(theirs.get(name), float):
            due.append(theirs[name])
        if blamed is not None and blamed.reference[1:] == blamed.candidate[1:] and _equal(value, blamed.candidate[0]):
            due.append(blamed.reference[0])
        if due and not any(_equal(value, each) for each in due):
            return code.at(line)
    return None


def code_at(source: str | None) -> str | None:
    """The text of a line, without its indentation."""
    place = SourceLine.of(source)
    if place is None:
        return None
    return linecache.getline(place.file, place.line).strip() or None
