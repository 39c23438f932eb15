"""Mistakes that nobody chose: edits of a port's syntax tree, drawn at random.

What is planted by hand is what came to somebody's mind, and an engine that is mended after a miss knows it. A new seed is a new set.
"""

from __future__ import annotations

import ast
import random
from typing import TYPE_CHECKING

import corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: functions and methods that stand in for each other in ports
ALIKE = [
    ("relu", "gelu", "silu"),
    ("sigmoid", "tanh"),
    ("mean", "sum"),
    ("max", "mean"),
    ("softmax", "log_softmax"),
    ("softmax", "sigmoid"),
    ("relu", "relu6"),
    ("ReLU", "GELU", "Hardswish"),
    ("Sigmoid", "Hardsigmoid"),
    ("avg_pool2d", "max_pool2d"),
    ("AvgPool2D", "MaxPool2D"),
    ("std", "var"),
    ("sin", "cos"),
    ("zeros", "ones"),
    ("maximum", "minimum"),
    ("exp", "expm1"),
    ("log", "log1p"),
    ("adaptive_avg_pool2d", "adaptive_max_pool2d"),
    ("l1_loss", "mse_loss"),
    ("Adam", "AdamW"),
    ("argmax", "argmin"),
    ("floor", "round"),
]
WORDS = [
    ("bilinear", "nearest", "bicubic"),
    ("mean", "sum"),
    ("constant", "reflect", "replicate"),
    ("upscale_in_train", "downscale_in_infer"),
]
OPPOSITE: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt}
OPPOSITE |= {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.FloorDiv: ast.Mult}

#: a change: what it is called, the node that goes, the text that comes
Change = tuple[str, ast.AST, str]


def changes(tree: ast.Module) -> Iterator[Change]:
    """All changes of a module's functions and constants that the rules below offer."""
    for node in ast.walk(tree):
        for rule in RULES:
            yield from rule(node)


def _constants(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "flag", node, str(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (("number", node, str(value)) for value in {node.value + 1, max(node.value - 1, 0)} - {node.value})
    elif isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield from (("number", node, repr(node.value * factor)) for factor in (0.5, 2.0, 10.0))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (("word", node, repr(other)) for group in WORDS if node.value in group for other in group if other != node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node, ast.unparse(node.operand)


def _operators(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp):
        if type(node.op) in OPPOSITE:
            yield "operator", node, ast.unparse(ast.BinOp(node.left, OPPOSITE[type(node.op)](), node.right))
        for side in (node.left, node.right):
            if not isinstance(side, ast.Constant):
                yield "operand left out", node, f"({ast.unparse(side)})"
        if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult)):
            yield "operands exchanged", node, f"({ast.unparse(ast.BinOp(node.right, node.op, node.left))})"
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITE:
        yield "comparison", node, ast.unparse(ast.Compare(node.left, [OPPOSITE[type(node.ops[0])]()], node.comparators))


def _calls(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    for number in range(len(node.keywords)):
        kept = node.keywords[:number] + node.keywords[number + 1 :]
        yield "argument left out", node, ast.unparse(ast.Call(node.func, node.args, kept))
    if len(node.args) > 1:
        for number in range(len(node.args) - 1):
            turned = [*node.args[:number], node.args[number + 1], node.args[number], *node.args[number + 2 :]]
            yield "arguments exchanged", node, ast.unparse(ast.Call(node.func, turned, node.keywords))
        yield "argument left out", node, ast.unparse(ast.Call(node.func, node.args[:-1], node.keywords))
    if isinstance(node.func, ast.Attribute):
        own = node.func.value
        library = isinstance(own, ast.Name) and own.id in ("F", "paddle", "nn", "np", "self", "math")
        instead = node.args[0] if node.args and library else own if not library else None
        if instead is not None and not isinstance(instead, ast.Starred):
            yield "call left out", node, f"({ast.unparse(instead)})" if isinstance(instead, ast.BinOp) else ast.unparse(instead)
            yield "detached", node, f"{ast.unparse(node)}.detach()"
        for group in ALIKE:
            for name in group if node.func.attr in group else ():
                if name != node.func.attr:
                    yield "function", node, ast.unparse(ast.Call(ast.Attribute(own, name), node.args, node.keywords))


def _lists(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        for number in range(len(node.elts) - 1):
            turned = [*node.elts[:number], node.elts[number + 1], node.elts[number], *node.elts[number + 2 :]]
            text = ", ".join(ast.unparse(e) for e in turned)
            yield "parts exchanged", node, f"[{text}]" if isinstance(node, ast.List) else f"({text})"


def _names(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.FunctionDef) or node.name == "__init__":
        return
    read = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {a.arg for a in node.args.args}
    for name in read:
        if name.id in local and name.id != "self":
            yield from (("another value", name, other) for other in sorted(local - {name.id, "self", "_"}))


def _statements(node: ast.AST) -> Iterator[Change]:
    body = getattr(node, "body", None)
    if not isinstance(body, list) or isinstance(node, ast.Module):
        return
    for number, statement in enumerate(body):
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and len(body) > 1:
            yield "line left out", statement, ""
        if number and all(isinstance(s, (ast.Assign, ast.AugAssign)) for s in (statement, body[number - 1])):
            yield "lines exchanged", statement, f"\0{number}"


RULES: list[Callable[[ast.AST], Iterator[Change]]] = [_constants, _operators, _calls, _lists, _names, _statements]


def mutants(program: str, seed: int) -> Iterator[corpus.Plant]:
    """Mutants of a program's port in an order that depends on the seed; every kind of change comes as often, where there is enough of it.

    A mutant has no stage yet, and may break the port or leave it as it is.
    """
    text = (corpus.PROGRAMS / program / "candidate.py").read_text(encoding="utf-8")
    for number, (what, edited, lines) in enumerate(edits(text, random.Random(f"{program} {seed}")), 1):
        yield corpus.Plant(f"m{seed}-{number}", what, (corpus.Edit(text, edited),), program=program, lines=lines)


def edits(text: str, drawn: random.Random, among: set[int] | None = None) -> Iterator[tuple[str, str, frozenset[int]]]:
    """What is changed, the module's text with it, and the true lines beyond those of the edit.

    Args:
        text: a module.
        drawn: gives the order; every kind of change comes as often, where there is enough of it.
        among: only changes of something that stands on one of these lines.
    """
    by_kind: dict[str, list[Change]] = {}
    for change in changes(ast.parse(text)):
        if among is None or among & set(_rows(change[1])):  # type: ignore[arg-type]
            by_kind.setdefault(change[0], []).append(change)
    for found in by_kind.values():
        drawn.shuffle(found)
    while any(by_kind.values()):
        kinds = [kind for kind, found in by_kind.items() if found]
        drawn.shuffle(kinds)
        for kind in kinds:
            name, node, new = by_kind[kind].pop()
            edited = _edited(text, node, new)
            if edited is not None and edited != text:
                whole = name.startswith("line")  # the edit itself is in the text
                lines = frozenset() if whole else _true_lines(ast.parse(edited), node.lineno)  # type: ignore[attr-defined]
                yield f"{name}: {ast.unparse(node)[:70]} -> {new.strip(chr(0))[:70]}", edited, lines


def _edited(text: str, node: ast.AST, new: str) -> str | None:
    """The module's text with a node replaced; a statement that goes takes its line along. None if that is no Python."""
    rows = text.splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    if new.startswith("\0"):  # with the statement before it
        above = first - 1
        while rows[above].strip().startswith("#"):
            above -= 1
        if len(rows[above]) - len(rows[above].lstrip()) != len(rows[first]) - len(rows[first].lstrip()) or rows[above].strip() == ")":
            return None
        rows[above : last + 1] = [*rows[first : last + 1], *rows[above:first]]
    elif not new:
        del rows[first : last + 1]
    else:
        head = rows[first].encode()[: node.col_offset].decode()  # type: ignore[attr-defined]
        tail = rows[last].encode()[node.end_col_offset :].decode()  # type: ignore[attr-defined]
        rows[first : last + 1] = [head + new + tail]
    edited = "".join(rows)
    try:
        return None if ast.dump(ast.parse(edited)) == ast.dump(ast.parse(text)) else edited
    except SyntaxError:
        return None


def _true_lines(tree: ast.Module, line: int) -> frozenset[int]:
    """Further lines that are true ones for an edit of one: where what it keeps is used, what it decides, what is left around nothing."""
    around = {
        row
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.Return)) and _holds(node, line) and isinstance(node.value, ast.Name)
        for row in (line - 1, line + 1)
    }
    decided = {row for node in ast.walk(tree) if isinstance(node, ast.If) and _holds(node.test, line) for row in _rows(node, beyond=1)}
    kept = {
        target.attr if isinstance(target, ast.Attribute) else target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _holds(node, line)
        for target in (part for each in node.targets for part in (each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each]))
        if isinstance(target, ast.Attribute) or (isinstance(target, ast.Name) and node in tree.body)
    }
    used = {
        row
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)) and kept & _read(node)
        for row in _rows(node)
    }
    asked = {row for node in ast.walk(tree) if isinstance(node, ast.If) and kept & _read(node.test) for row in _rows(node, beyond=1)}
    return frozenset(around | decided | used | asked)


def _holds(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _rows(node: ast.stmt, beyond: int = 0) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1 + beyond)


def _read(tree: ast.AST) -> set[str]:
    """The names and attributes that are read somewhere in a piece of a tree."""
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)
    }
