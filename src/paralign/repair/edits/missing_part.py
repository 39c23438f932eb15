"""A part of a formula that the candidate leaves out.

A term, a factor, a function of a value.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import PREFIXES, full_name, is_port, last_name, ported
from paralign.repair.edits.sentences import lacking, tried
from paralign.repair.proposals import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "missing"

#: beside other proposals; of a value that the candidate made and does not take
WEIGHT, IDLE = 0.6, 1.4

_SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.FloorDiv: "//"}

_JOINING = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

#: operands of the reference's that are tried, and characters of each
MOST, LONGEST = 8, 60


def propose(site: Site) -> Iterator[Proposal]:
    """Propose each expression of the statement with a part that may be missing there.

    Parts are the reference's.
    """
    places = [each for each in site.nodes if _is_value(each, site.parents.get(id(each))) and getattr(each, "id", "") not in site.objects]
    shown = joined(site.divergence.relation)
    spoken = {name for each in site.beside for name in each.spoken}
    own = (site.idle | ({shown[1]} if shown is not None else set())) - spoken  # no line of the reference has them
    for op, text in _terms(site)[:MOST]:
        for node in places:
            sum_of_terms = op in "+-" and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div)
            whole = f"{site.text(node) if sum_of_terms else _held(site.text(node), node)} {op} {text}"
            if text not in site.text(node):
                weight = IDLE if text in site.idle else WEIGHT
                words = tried(site.text(node), whole) if text in own else lacking(f"{op} {text}", whole)
                yield site.replaced(node, _placed(whole, site.parents.get(id(node))), ID, words, weight)
            if op in "-/":
                turned = f"{text} {op} {_held(site.text(node), node)}"
                yield site.replaced(node, _placed(turned, site.parents.get(id(node))), ID, lacking(f"{text} {op}", turned), WEIGHT / 2)
    values = [node for node in places if not isinstance(node, ast.Constant)]
    for text in _slices(site):
        for node in values:
            whole = f"{_held(site.text(node), node)}{text}"
            if not isinstance(node, ast.Subscript):
                yield site.replaced(node, whole, ID, lacking(text, whole), WEIGHT)
    for before, after in _functions(site):
        for node in values:
            text = site.text(node) if before else _held(site.text(node), node)
            whole = f"{before}{text}{after}"
            yield site.replaced(node, whole, ID, lacking(f"{before}…{after}", whole), WEIGHT)


def _is_value(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether an expression is a value that can be computed with."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.Subscript | ast.UnaryOp | ast.Constant):
        return False
    if isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
        return False
    stored = isinstance(getattr(node, "ctx", None), ast.Store) or (isinstance(node, ast.Name) and node.id in PREFIXES)
    called = isinstance(parent, ast.Call) and parent.func is node
    if stored or called or (isinstance(parent, ast.AnnAssign) and parent.annotation is node):
        return False
    if isinstance(parent, ast.Attribute):  # whose method is called; a module, or an object that keeps values, is none
        return isinstance(node, ast.BinOp | ast.Call | ast.Subscript) or (isinstance(node, ast.Name) and node.id not in PREFIXES)
    return not isinstance(parent, ast.arg | ast.arguments)


def _terms(site: Site) -> list[tuple[str, str]]:
    """Operators and right operands of the reference's statement that the candidate can write.

    First the one that was seen to make the result right, then what the candidate made and does not take.
    """
    shown = joined(site.divergence.relation)
    found: dict[tuple[str, str], None] = {shown: None} if shown is not None and shown[1] in site.names else {}
    found.update({("*", name): None for name in site.names if name in site.idle})
    for beside in site.beside:
        for node in beside.nodes:
            if isinstance(node, ast.BinOp) and type(node.op) in _SYMBOLS:
                symbol = _SYMBOLS[type(node.op)]
                for operand in (node.right, node.left):
                    text = _written(site, operand)
                    if text and (operand is node.right or symbol in "+*"):
                        found.setdefault((symbol, text))
    return list(found)


def joined(relation: str) -> tuple[str, str] | None:
    """The operator and the name of a value with which one more step makes a result right.

    ``relation`` is a point's; None where it tells none.
    """
    found = re.search(r"\b(\w+) with `(\w+)` first", relation)
    return (_JOINING[found[1]], found[2]) if found is not None and found[1] in _JOINING else None


def _slices(site: Site) -> list[str]:
    """The reference's slices and indices that the candidate can write, with brackets."""
    own = {ast.unparse(node.slice) for node in site.nodes if isinstance(node, ast.Subscript)}
    found: dict[str, None] = {}
    theirs = [node.slice for beside in site.beside for node in beside.nodes if isinstance(node, ast.Subscript)]
    for index in theirs:
        text = ast.unparse(index)
        if isinstance(index, ast.Tuple):
            text = text.removeprefix("(").removesuffix(")")
        if text not in own and len(text) <= LONGEST and _is_of_known_names(index, site):
            found.setdefault(f"[{text}]")
    return list(found)[:MOST]


def _is_of_known_names(index: ast.expr, site: Site) -> bool:
    """Whether an index has no attribute, no call, and only names that the candidate knows."""
    bounds = [each for each in ast.walk(index) if isinstance(each, ast.Name | ast.Attribute | ast.Call)]
    return all(isinstance(each, ast.Name) and each.id in site.identifiers for each in bounds)


def _written(site: Site, node: ast.expr) -> str:
    """An expression of the reference's in the candidate's words; '' where it has other names."""
    if literal(node) is not ...:
        return ast.unparse(node)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in site.names and inner.id != "self":
            return ""
        if isinstance(inner, ast.Attribute) and inner.attr not in site.identifiers:
            return ""
    text = ast.unparse(node)
    return (f"({text})" if isinstance(node, ast.BinOp) else text) if len(text) <= LONGEST else ""


def _functions(site: Site) -> list[tuple[str, str]]:
    """Functions and methods of the reference's statement, as text before and behind a value."""
    own = {last_name(node) for node in site.nodes if isinstance(node, ast.Call)}
    found: dict[tuple[str, str], None] = {}
    for beside in site.beside:
        for node in beside.nodes:
            if not isinstance(node, ast.Call) or not last_name(node):
                continue
            name = ported(last_name(node), site.framework)
            if name in own or name[:1].isupper():
                continue
            method = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in PREFIXES
            rest = node.args if method else node.args[1:]
            texts = [_written(site, each) for each in rest] + [
                f"{_axis(k, site)}={_written(site, k.value)}" for k in node.keywords if k.arg
            ]
            if any(not text or text.endswith("=") for text in texts):
                continue
            inside = ", ".join(texts)
            if full_name(site.framework, name) or name in site.identifiers:
                as_method = ("", f".{name}({inside})")
                as_functions = [(f"{prefix}{name}(", f"{', ' * bool(inside)}{inside})") for prefix in _prefixes(site, name, node.func)]
                found.update(dict.fromkeys([as_method, *as_functions] if method else [*as_functions, as_method]))
    return list(found)


def _axis(keyword: ast.keyword, site: Site) -> str:
    return {"dim": "axis", "keepdims": "keepdim"}.get(str(keyword.arg), str(keyword.arg)) if is_port(site.framework) else str(keyword.arg)


def _prefixes(site: Site, name: str, theirs: ast.expr) -> list[str]:
    """How the candidate's file can name a function of its framework."""
    written = ast.unparse(theirs).rpartition(".")
    if written[2] == name and written[0] in _imported(site) and written[0] in PREFIXES:
        return [f"{written[0]}."]
    home = full_name(site.framework, name).rpartition(".")[0]
    bound = "F." if home.endswith(".nn.functional") else f"{home}." if home and "." not in home else ""
    if bound and bound.rstrip(".") in site.identifiers | _imported(site):
        return [bound]
    return ["np."] if "np" in _imported(site) and not home else []


def _imported(site: Site) -> set[str]:
    return {alias.asname or alias.name for alias in site.source.imports}


def _held(text: str, node: ast.AST) -> str:
    """An expression as an operand."""
    return f"({text})" if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.BoolOp) else text


def _placed(text: str, parent: ast.AST | None) -> str:
    """An expression with an operator, in brackets where it becomes a part of another one."""
    return f"({text})" if isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Attribute | ast.Subscript | ast.Compare) else text
