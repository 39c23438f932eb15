"""Where in the user's files a setting is written."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.locate.recipes import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

#: numbers that differ by less than this share are one
_SAME = 1e-6


def setting_line(source: str | None, term: str) -> str | None:
    """The line that writes the setting, in the call at ``source`` (``file:line``); the call's own line where it does not."""
    file, _, line = (source or "").rpartition(":")
    if not line.isdecimal():
        return source
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return source
    words = (*WRITTEN.get(term, ()), *WORDS.get(term, ()))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= int(line) <= (n.end_lineno or n.lineno)]
    for call in sorted(calls, key=lambda c: (c.end_lineno or c.lineno) - c.lineno):
        found = [k.value.lineno for k in call.keywords if k.arg in words]
        if len(found) == 1:
            return f"{file}:{found[0]}"
    return source


def term_line(answer: Mapping[str, Any], term: str, files: Iterable[str], layer: str | None, *, varies: bool) -> str | None:
    """Where a term is set: by the schedule, by a parameter's own settings, or by the call that constructs the optimizer.

    Args:
        answer: of the task ``update``.
        term: that differs, '' where none is known.
        files: that the side was made of.
        layer: the line that constructed the layer of a parameter concerned.
        varies: whether the learning rates change from step to step.
    """
    built, about = answer["built"], answer["optimizer"]
    if term == "rates":
        if varies and built["scheduler"]:
            return str(built["scheduler"])
        if any(own.get("rate", 1.0) != 1.0 for own in about["parameters"].values()) and len(about["groups"]) == 1:
            return parameter_line(files) or layer or built["optimizer"]
    return setting_line(built["optimizer"], term)


def is_given(arguments: Mapping[str, Any], term: str, reference: Any, candidate: Any) -> bool:
    """Whether the call that constructed an optimizer gave it the candidate's value of a term in which the sides differ."""
    words = (*WRITTEN.get(term, ()), *WORDS.get(term, ()))
    given = [value for name, value in arguments.items() if name in words]
    numbers = [number for value in given for number in (value if isinstance(value, list) else [value])]
    return (
        reference != candidate and any(_equal(number, candidate) for number in numbers) and not any(_equal(n, reference) for n in numbers)
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return isinstance(one, (int, float)) and isinstance(other, (int, float)) and abs(one - other) <= _SAME * max(abs(one), abs(other))


def parameter_line(files: Iterable[str]) -> str | None:
    """The one line in some files where a parameter is given a rate of its own by ``ParamAttr``; None where there is none or several."""
    found = set()
    for file in files:
        if not file.endswith(".py"):
            continue
        try:
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("ParamAttr")
                and any(k.arg == "learning_rate" for k in node.keywords)
            ):
                found.add(f"{file}:{node.lineno}")
    return found.pop() if len(found) == 1 else None


def code_at(source: str | None) -> str | None:
    """The text of a line, without its indentation."""
    file, _, line = (source or "").rpartition(":")
    return linecache.getline(file, int(line)).strip() or None if line.isdecimal() else None
