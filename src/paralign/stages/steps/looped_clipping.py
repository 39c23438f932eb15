"""Gradients that a side's training loop clips, found in its source.

No optimizer tells of it.
"""

from __future__ import annotations

import ast
import math
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
    "reference": "nothing, if both clip alike: the reference may clip in its training loop ({}). Give both sides train_step(model, "
    "optimizer, batch) with the step of their loops: what it comes to is judged then",
    "candidate": "nothing, if both clip alike: the candidate may clip in its training loop ({}). Give both sides train_step(model, "
    "optimizer, batch) with the step of their loops: what it comes to is judged then",
}

#: files of a side that are read, and the largest of them in bytes: more than any repository of a paper has
MOST_FILES, LARGEST = 5000, 2 << 20

_LEFT_OUT = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})

#: arguments of a clipping that may be its bound by their places, and the keyword that is none though it may be infinite
_BOUNDS, _NO_BOUND = 2, "norm_type"

#: how calls end by which a function takes a training step
_STEPS = ("backward", "step")

#: an argument by which a trainer clips
_BY_ARGUMENT = "gradient_clip_val"


def say(context: Context, finding: Finding, side: str) -> None:
    """Say in a finding where the side whose optimizer does not clip may do so in its loop.

    Source is read for it and not run. Not where own steps of both sides are compared: these show it.
    A side's files are those below its root that import its framework.

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
    """Lines (``file:line``) below a folder that clip gradients where steps are taken.

    In files that import the framework. Settings of a trainer count wherever they stand: it takes the steps.
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
            yield from (f"{path}:{line}" for line in sorted(_clipping_lines(tree)))


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


def _clipping_lines(tree: ast.Module) -> set[int]:
    """Lines of calls that clip in a function that takes steps.

    Or in a file's own statements that do. A call of a function of the file that clips is one too.
    """
    everything = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    lines = {call.lineno for call in everything if _is_told_to_clip(call)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    clipping = {each.name for each in functions if any(map(_clips, _calls_in(each)))}
    for scope in (tree, *functions):
        calls = _calls_in(scope)
        if any(_name(call).endswith(_STEPS) for call in calls):
            lines |= {call.lineno for call in calls if _clips(call) or (_name(call) in clipping and not _measures(call))}
    return lines


def _calls_in(scope: ast.AST) -> list[ast.Call]:
    """The calls of a function, with those of functions inside it.

    Of a file, those outside functions.
    """
    found, left = [], list(ast.iter_child_nodes(scope))
    while left:
        node = left.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        if not (isinstance(scope, ast.Module) and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            left += ast.iter_child_nodes(node)
    return found


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))


def _clips(call: ast.Call) -> bool:
    """Whether a call is named as what clips gradients is, with a bound.

    A class, as Paddle's ClipGradByNorm, is for the optimizer.
    """
    name = _name(call)
    return "clip" in name and "grad" in name and not _measures(call)


def _measures(call: ast.Call) -> bool:
    """Whether a clipping has no bound that is finite: it only measures."""
    given = [*call.args[:_BOUNDS], *(each.value for each in call.keywords if each.arg != _NO_BOUND)]
    return any(map(_is_infinite, given))


def _is_infinite(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and _name(node) in ("float", "tensor") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Attribute | ast.Name):
        return str(getattr(node, "attr", None) or getattr(node, "id", "")).lower() in ("inf", "infinity")
    try:
        return math.isinf(float(ast.literal_eval(node)))
    except (ValueError, TypeError, OverflowError):
        return False


def _is_told_to_clip(call: ast.Call) -> bool:
    """Whether a call has the argument by which a trainer clips."""
    for keyword in call.keywords:
        if keyword.arg == _BY_ARGUMENT:
            return not (isinstance(keyword.value, ast.Constant) and not keyword.value.value) and not _is_infinite(keyword.value)
    return False
