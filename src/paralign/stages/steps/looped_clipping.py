"""Gradients that a side's training loop clips, found in its source.

No optimizer tells of it.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.locate.optimizer.term_causes import CLIPPED_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.context import Context
    from paralign.model import Finding

#: the rule of a finding that an edit of the optimizer would hide: the other side clips too, where no stage has looked yet
LOOPED = "update/clipped-in-loop"

#: what to do then, by the side that clips in its loop; the hole is the line that does
ADVICE = {
    "reference": "nothing, if both clip alike: the reference clips in its training loop ({}). Give both sides train_step(model, optimizer, "
    "batch) with the step of their loops: what it comes to is judged then",
    "candidate": "nothing, if both clip alike: the candidate clips in its training loop ({}). Give both sides train_step(model, optimizer, "
    "batch) with the step of their loops: what it comes to is judged then",
}

#: files of a side that are read, and the largest of them in bytes: more than any repository of a paper has
MOST_FILES, LARGEST = 5000, 2 << 20

_LEFT_OUT = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})

#: an argument by which a trainer clips
_BY_ARGUMENT = "gradient_clip_val"


def say(context: Context, finding: Finding, side: str) -> None:
    """Say in a finding where the side whose optimizer does not clip does so in its loop.

    Not where own steps of both sides are compared: these show it. A side's files are those below its root that import its framework.

    Args:
        context: the check.
        finding: that one optimizer clips; changed in place.
        side: the other one, ``reference`` or ``candidate``.
    """
    if finding.fix != CLIPPED_ELSEWHERE or all(context.has(each, "train_step") for each in ("reference", "candidate")):
        return
    settings = context.settings.sides.get(side)
    if settings is None:
        return
    place = next(clipping_calls(settings.root, context.framework(side)), "")
    if place:
        finding.rule, finding.fix = LOOPED, ADVICE[side].format(place)


def clipping_calls(root: Path, framework: str) -> Iterator[str]:
    """Lines (``file:line``) below a folder that call what clips gradients.

    In files that import the framework.
    """
    for path in _sources(root):
        try:
            content = path.read_bytes()
            if b"clip" not in content:
                continue
            tree = ast.parse(content)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if any(_imports(node, framework) for node in ast.walk(tree)):
            lines = sorted(node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _clips(node))
            yield from (f"{path}:{line}" for line in lines)


def _sources(root: Path) -> Iterator[Path]:
    """Python files below a folder, in order.

    Hidden folders, builds and environments are left out.
    """
    count = 0
    for folder, inner, names in os.walk(root):
        here = Path(folder)
        inner[:] = sorted(n for n in inner if n[0] != "." and n not in _LEFT_OUT and not (here / n / "pyvenv.cfg").exists())
        for path in (here / name for name in sorted(names) if name.endswith(".py")):
            if path.is_file() and path.stat().st_size <= LARGEST:
                count += 1
                if count > MOST_FILES:
                    return
                yield path


def _imports(node: ast.AST, framework: str) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == framework for alias in node.names)
    return isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == framework


def _clips(call: ast.Call) -> bool:
    """Whether a call is named as what clips gradients is, or is told to."""
    name = str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))
    if "clip" in name and "grad" in name:  # a class, as Paddle's ClipGradByNorm, is for the optimizer
        return True
    for keyword in call.keywords:
        if keyword.arg == _BY_ARGUMENT:
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
    return False
