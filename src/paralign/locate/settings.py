"""Where in the user's files a setting is written."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.locate.recipes import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

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
