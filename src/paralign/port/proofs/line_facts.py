"""The ledger a line: what a proof says of every place of the source that was looked at.

A line is proven where the original ran it and the class or function that it stands in was held against its original. A line that did not
run, or of which it is not known whether it ran, is never proven.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from paralign.port.edits.ledger import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paralign.port.edits.ledger import Ledger, Place

#: parts of an expression that may be left out when its line runs
_CHOSEN = (ast.IfExp, ast.BoolOp, ast.Lambda)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Fact(Enum):
    """What is known of one class, function or line."""

    PROVEN = "proven"
    UNPROVEN = "reached but not proven"
    UNREACHED = "not reached"
    UNCONVERTED = "could not convert"


@dataclass(frozen=True)
class Proof:
    """One class or function of the source, and what is known of its conversion.

    ``error`` is the greatest relative L2 distance of an output; None where nothing was compared. ``held``: every call gave what the
    original gave, whatever is left by hand in parts that did not run. ``causes``: what is known to differ at lines of one that is not
    proven, from the catalogue and the ledger. ``repaired``: edits of its lines that a repair has proven. ``unasked``: calls of which it
    could not be asked whether within the entry they gave what they give by themselves.
    """

    path: str
    line: int
    name: str
    fact: Fact
    reason: str = ""
    calls: int = 0
    error: float | None = None
    causes: tuple[str, ...] = ()
    end: int = 0
    held: bool = False
    repaired: tuple[str, ...] = ()
    unasked: int = 0


@dataclass(frozen=True)
class LineFact:
    """One place of the ledger, and what is known of it."""

    path: str
    line: int
    name: str
    fate: Fate
    fact: Fact
    reason: str = ""


@dataclass(frozen=True)
class Ran:
    """Lines of the original that ran in the forward pass, and during construction.

    Files are named by the ledger's paths.
    """

    passed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    built: Mapping[str, frozenset[int]] = field(default_factory=dict)


def line_facts(ledger: Ledger, proofs: Iterable[Proof], sources: Mapping[str, str], ran: Ran) -> list[LineFact]:
    """What is known of every place of a ledger, in its order."""
    around: dict[str, list[Proof]] = {}
    for proof in proofs:
        around.setdefault(proof.path, []).append(proof)
    layouts = {path: _Layout(text) for path, text in sources.items()}
    found = []
    for place in ledger.places:
        holder = next((each for each in around.get(place.path, []) if each.line <= place.line <= each.end), None)
        fact, reason = _fact(place, holder, layouts.get(place.path), ran)
        found.append(LineFact(place.path, place.line, place.name, place.fate, fact, reason))
    return found


def _fact(place: Place, proof: Proof | None, layout: _Layout | None, ran: Ran) -> tuple[Fact, str]:
    if place.fate is Fate.BY_HAND:
        return Fact.UNCONVERTED, place.note
    if layout is None or proof is None:
        return Fact.UNREACHED, "outside of the classes and functions that are held against their originals"
    if not proof.calls:
        return Fact.UNREACHED, proof.reason
    lines = layout.lines_of(place.line)
    passed = bool(lines & ran.passed.get(place.path, frozenset()))
    if lines and not passed and not lines & ran.built.get(place.path, frozenset()):
        return Fact.UNREACHED, "the line does not run"
    reason = _open(place, proof, layout, only_built=bool(lines) and not passed)
    return (Fact.UNPROVEN, reason) if reason else (Fact.PROVEN, "")


def _open(place: Place, proof: Proof, layout: _Layout, *, only_built: bool) -> str:
    """Why a line that ran is not proven; empty where it is."""
    if not proof.held:
        return proof.reason
    if layout.is_chosen(place.line, place.column):
        return "a part of an expression: whether it ran is not known"
    if only_built and not _is_layer(place.name):
        return "it runs while the model is built, and what it makes was replaced by the original's weights"
    return ""


def _is_layer(name: str) -> bool:
    """Whether a callable makes a layer: what its arguments do shows when the layer is called."""
    if not name.startswith("torch.nn."):
        return False
    return name.rpartition(".")[2][:1].isupper() and not name.endswith(("Parameter", "Buffer"))


class _Layout:
    """Where the statements of a file stand, and which parts of their expressions are chosen."""

    def __init__(self, text: str) -> None:
        self._statements: list[tuple[int, int, frozenset[int]]] = []
        self._chosen: list[ast.expr] = []
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                self._statements.append((node.lineno, node.end_lineno or node.lineno, _own_lines(node)))
            elif isinstance(node, _CHOSEN):
                self._chosen += _parts(node)

    def lines_of(self, line: int) -> frozenset[int]:
        """The lines that run when a line's statement does.

        None of a class's header and of statements that only define.
        """
        around = [each for each in self._statements if each[0] <= line <= each[1]]
        return max(around, key=lambda each: (each[0], -each[1]))[2] if around else frozenset()

    def is_chosen(self, line: int, column: int) -> bool:
        """Whether a place stands in a part of an expression that may be left out.

        Its column counts from 1.
        """
        return any(
            (each.lineno, each.col_offset) <= (line, column - 1) < (each.end_lineno or each.lineno, each.end_col_offset or 0)
            for each in self._chosen
        )


def _own_lines(node: ast.stmt) -> frozenset[int]:
    """The lines of a statement without those of statements within.

    Of a function's header, its body's; none of a class's.
    """
    if isinstance(node, ast.ClassDef):
        return frozenset()
    if isinstance(node, _FUNCTIONS):
        return frozenset(line for each in node.body for line in range(each.lineno, (each.end_lineno or each.lineno) + 1))
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return frozenset(range(node.lineno, max(node.lineno + 1, body[0].lineno)))
    return frozenset(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values[1:]
    return [node.body] if isinstance(node, ast.Lambda) else []


def counts(facts: Iterable[Proof] | Iterable[LineFact]) -> dict[Fact, int]:
    """How many there are of each fact."""
    found = Counter(each.fact for each in facts)
    return {fact: found[fact] for fact in Fact}
