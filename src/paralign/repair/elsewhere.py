"""Edits of statements that no point names.

The statements that a stage may run are held against the reference's: where one has another number, lacks a part or comes in another
order than the reference's likest statement, an edit that makes both alike is proposed. Nothing is believed before it was tried.
"""

from __future__ import annotations

import ast
import math
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import last_name, signature, word, words
from paralign.model import Divergence, SourceLine
from paralign.registry import BY_NAME
from paralign.repair.edited_statement import edited_statement
from paralign.repair.edits import EDITS, known_value, measured_argument, missing_statement, other_constant
from paralign.repair.edits.exchanged_steps import is_step, turned_steps
from paralign.repair.edits.sentences import instead, tried
from paralign.repair.edits.sentences import lacking as lacking_words
from paralign.repair.named_literals import COMMON, Literals, far, key_of, literals_of, with_names
from paralign.repair.proposals import Beside, Proposal, Site, is_number, is_shallow, literal, parts_of, value_text
from paralign.repair.ranking import FORBIDDEN, changes_files, is_safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paralign.repair.edited_settings import Settings
    from paralign.repair.edited_source import Source

#: kinds of edits that read what a point has measured, and one whose place is told by a point
_OF_POINTS = frozenset({known_value.ID, measured_argument.ID, missing_statement.ID})

#: beside other proposals: the number that the reference has under the same name; one that only the reference has, in the place of one that
#: only the candidate has; one that only the reference has, for an argument left out; neighbours in the reference's order; in another
SAME_NAME, ODD, LEFT_OUT, TURNED, NEIGHBOURS = 2.6, 2.2, 1.4, 1.2, 0.1

#: what a statement that becomes the reference's earns
LIKENESS = 2.5

#: proposals of one statement; odd numbers of the reference that are tried in each place
MOST, FEW = 60, 6

#: kinds of edits that many proposals are of and few mistakes are undone by
RARE = {"name": 0.5, "missing": 0.2}

#: nodes of a statement from which on it is left alone
LONGEST = 200

#: likeness of two statements from which on they are held against each other
ALIKE = 0.45

#: functions of other stages that a stage runs, and that are right only so far as the stage of theirs could see
_ALSO = {
    "backward": {"build_model", "loss", "build_optimizer", "build_scheduler"},
    "optimizer": {"build_model"},
    "init": {"build_model"},
    "metric": {"build_dataset", "build_dataloader"},
    "infer": {"build_model"},
}

#: what each further proposal of a statement loses, so that those of other statements are tried between them
CROWD = 0.03

#: what statements earn that stand near a named one: in its function, in one that it uses
SAME_FUNCTION, USED = 0.9, 0.6

#: an ``if`` and its ``elif`` exchanged
BRANCHES = 0.5

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

#: the id of edits that exchange two statements
EXCHANGED = "order"


@dataclass(frozen=True)
class _Known:
    """A statement of one of the sides."""

    source: Source
    statement: ast.stmt
    home: ast.AST
    words: tuple[str, ...]
    bag: Counter[str]


def proposals(
    stage: str,
    doubtful: Iterable[str],
    sides: tuple[list[Source], list[Source]],
    framework: str,
    points: list[Divergence],
    until: float = math.inf,
    settings: tuple[list[Settings], list[Settings]] = ([], []),
) -> list[Proposal]:
    """Edits of statements that a stage may run, the likeliest first.

    Args:
        stage: that diverges.
        doubtful: other stages that are not known to be right; what they alone run is looked at too.
        sides: the sources of the reference and of the candidate.
        framework: of the candidate.
        points: of the stage; what is near their lines comes first.
        until: when to stop thinking of edits, by ``time.monotonic()``; the statements near the named lines come first.
        settings: settings files of the reference and of the candidate.
    """
    theirs = [_known(*each) for source in sides[0] for each in _statements(source.tree, source)]
    literals = tuple(literals_of(*side) for side in zip(sides, settings, strict=True))
    found: list[Proposal] = []
    likest: dict[int, tuple[float, int]] = {}
    point = replace(points[0], what="") if points else Divergence(None, None)
    near = _Near(points, sides[1])
    reachable = _reachable(stage, doubtful, sides[1])
    for known in sorted(reachable, key=lambda each: -near.gain(each)):
        if time.monotonic() > until:
            break
        ratio, at = _likest(known, theirs)
        likest[id(known.statement)] = ratio, at
        beside = [Beside(theirs[at].source, theirs[at].statement, theirs[at].home)] if at >= 0 else []
        site = Site(known.source, known.statement.lineno, known.statement, known.home, point, beside, framework)
        own = [*_of_literals(site, literals), *_of_signatures(site, literals), *_of_branches(site)] + (
            _of_likeness(site, ratio) if ratio < 1.0 else []
        )
        gain = near.gain(known)
        own.sort(key=lambda each: -each.weight)
        found += [replace(each, weight=each.weight + gain - CROWD * place) for place, each in enumerate(own)]
    found += _exchanged(reachable, likest, theirs, near)
    return sorted(found, key=lambda each: -each.weight)


class _Near:
    """What stands near the lines that points name.

    Args:
        points: whose lines, and lines that led there.
        sources: of the candidate.
    """

    def __init__(self, points: list[Divergence], sources: list[Source]) -> None:
        named = [SourceLine.of(text) for each in points if (own := each.candidate) is not None for text in (own.source, *own.lines)]
        self._functions: set[int] = set()
        self._used: set[str] = set()
        for source in sources:
            lines = {each.line for each in named if each is not None and Path(each.file).resolve() == source.path}
            for home in functions_of(source.tree, lines):
                self._functions.add(id(home))
                self._used |= {str(getattr(node, "id", None) or getattr(node, "attr", "")) for node in ast.walk(home)} - {""}

    def gain(self, known: _Known, statement: ast.stmt | None = None) -> float:
        """What a statement earns; ``statement``: one in the body of the known one."""
        inner = known.statement if statement is not None and isinstance(known.statement, _FUNCTIONS) else known.home
        if id(inner) in self._functions or id(known.statement) in self._functions:
            return SAME_FUNCTION
        names = {getattr(inner, "name", ""), *_bound(known.statement)} if isinstance(inner, _FUNCTIONS | ast.Module) else set()
        return USED if names & self._used else 0.0


def functions_of(tree: ast.AST, lines: set[int]) -> Iterator[ast.AST]:
    """The innermost function or class around each line."""
    for line in lines:
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, _FUNCTIONS | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        if around:
            yield max(around, key=lambda node: node.lineno)


def _statements(tree: ast.AST, source: Source) -> Iterator[tuple[Source, ast.stmt, ast.AST]]:
    """All statements of a file in their order, with what is around each."""
    todo: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while todo:
        node, home = todo.pop()
        inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else home
        children = list(ast.iter_child_nodes(node))
        for child in children:
            if isinstance(child, ast.stmt) and not isinstance(child, ast.Import | ast.ImportFrom) and is_shallow(child):
                yield source, child, inner
        todo += [(child, inner) for child in reversed(children)]


def _known(source: Source, statement: ast.stmt, home: ast.AST) -> _Known:
    told = tuple(words(statement))
    return _Known(source, statement, home, told, Counter(told))


def run_by(stage: str, doubtful: Iterable[str], sources: list[Source]) -> list[tuple[Source, ast.stmt]]:
    """The statements of modules that stages may run, followed by name.

    A side's own name of a function may be another one: without any of them all statements are taken.
    """
    entries = {name for each in (stage, *doubtful) for name in BY_NAME[each].functions} | _ALSO.get(stage, set())
    bound: dict[str, list[tuple[Source, ast.stmt]]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            for name in _bound(node):
                bound[name].append((source, node))
    todo = [name for name in entries if name in bound] or list(bound)
    seen, nodes = set(todo), {}
    while todo:
        for source, node in bound.get(todo.pop(), ()):
            if id(node) in nodes:
                continue
            nodes[id(node)] = source, node
            used = {name for each in ast.walk(node) for name in (getattr(each, "id", None), getattr(each, "attr", None)) if name in bound}
            todo += used - seen
            seen |= used
    return list(nodes.values())


def _reachable(stage: str, doubtful: Iterable[str], sources: list[Source]) -> list[_Known]:
    """The statements that stages may run and that may be edited."""
    every = []
    acting: set[int] = set()
    read: set[str] = set()
    for source, node in run_by(stage, doubtful, sources):
        inner = list(_statements(node, source))
        every += [(source, node, source.tree), *inner]
        acting.update(id(home) for _, statement, home in inner if changes_files(statement))
        if changes_files(node):
            read.update(_names(node))
    return [_known(*each) for each in every if _may_be_edited(each[1], each[2], acting, read)]


def _may_be_edited(statement: ast.stmt, home: ast.AST, acting: set[int], read: set[str]) -> bool:
    """Whether a statement can be edited without a change of what the program does to files."""
    if not is_shallow(statement) or isinstance(statement, ast.Import | ast.ImportFrom) or _is_long(statement):
        return False
    if id(home) in acting or changes_files(statement):
        return False
    return not (isinstance(home, ast.Module) and read & set(_bound(statement)))


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_long(node: ast.stmt) -> bool:
    """Whether a statement itself is a table or a generated formula."""
    return sum(1 for _ in islice(parts_of(node), LONGEST)) == LONGEST


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement of a module binds; a block's inner ones too."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def _likest(known: _Known, theirs: list[_Known]) -> tuple[float, int]:
    """How like the reference's likest statement is, and its number; -1 without one."""
    best, at = ALIKE, -1
    size = len(known.words)
    for number, each in enumerate(theirs):
        if type(each.statement) is not type(known.statement) and not isinstance(
            each.statement, ast.Assign | ast.Return | ast.AnnAssign | ast.Expr
        ):
            continue
        total = size + len(each.words)
        if not total or 2.0 * sum((known.bag & each.bag).values()) / total <= best:
            continue
        ratio = SequenceMatcher(None, known.words, each.words, autojunk=False).ratio()
        if ratio > best:
            best, at = ratio, number
    return (best, at) if at >= 0 else (0.0, -1)


def _of_literals(site: Site, literals: tuple[Literals, ...]) -> Iterator[Proposal]:
    """Literals that the reference has under the same name, or that only it has."""
    theirs, own = literals
    editable = _editable_parts(site)
    lacking = [value for value in theirs.every - own.every if not isinstance(value, bool) and value not in COMMON]
    for name, node in with_names(site.statement):
        have = literal(node)
        if id(node) not in editable or (isinstance(have, str) and not _is_word(have)):
            continue
        key = key_of(have)
        is_named = bool(name) and not name.startswith("entry ")
        under = theirs.named.get(name, set()) if is_named else set()
        if key not in under:
            weight = SAME_NAME / max(1, len(under))
            for value in filter(partial(site.is_possible, node), _fitting(key, under)):
                yield _written(site, node, value, weight)
        if key not in theirs.every and not isinstance(have, bool):
            fitting = sorted(filter(partial(site.is_possible, node), _fitting(key, lacking)), key=lambda value: far(key, value))[:FEW]
            for place, value in enumerate(fitting):
                yield _written(site, node, value, ODD - 0.1 * place)


def _editable_parts(site: Site) -> set[int]:
    """The ids of a site's expressions, but for what is given to calls that act on the world."""
    parts = {id(node) for node in site.nodes}
    for node in site.nodes:
        if isinstance(node, ast.Call) and _acts(node):
            parts.difference_update(map(id, ast.walk(node)))
    return parts


def _is_word(text: object) -> bool:
    """Whether a text names a choice, as ``"mean"`` does: no path, mode or sentence."""
    return isinstance(text, str) and text.isidentifier() and len(text) > 2  # noqa: PLR2004 - modes of files have up to two letters


def _acts(node: ast.AST) -> bool:
    """Whether a piece calls what acts on the world."""
    names = {getattr(each, "id", None) or getattr(each, "attr", None) for each in ast.walk(node)}
    return bool(names & FORBIDDEN)


def _acting(statement: ast.stmt) -> list[str]:
    """The calls of a statement that act on the world: what they get stays as it is."""
    calls = [node for node in parts_of(statement) if isinstance(node, ast.Call)]
    return sorted(ast.dump(node) for node in calls if {getattr(node.func, "id", ""), getattr(node.func, "attr", "")} & FORBIDDEN)


def _written(site: Site, node: ast.AST, value: object, weight: float) -> Proposal:
    have = literal(node)
    whole = isinstance(value, float) and value == int(value) and isinstance(have, int)
    text = value_text(int(value) if whole else value)  # type: ignore[call-overload]
    return site.replaced(node, text, other_constant.ID, instead(site.text(node), text), weight)


def _fitting(have: object, values: Iterable[object]) -> list[object]:
    """Values of the same kind as one."""
    fitting = [value for value in values if type(value) is type(have) and value != have and value_text(value)]
    return [value for value in fitting if not isinstance(value, str) or _is_word(value)]


def _of_signatures(site: Site, literals: tuple[Literals, ...]) -> Iterator[Proposal]:
    """Arguments that a call leaves out, with numbers that only the reference has."""
    theirs, own = literals
    lacking = [value for value in _finite(theirs.every - own.every) if value not in COMMON]
    for node in site.nodes:
        if not isinstance(node, ast.Call) or site.is_foreign(node) or any(isinstance(each, ast.Starred) for each in node.args):
            continue
        known = signature(site.framework, last_name(node))
        if known is None:
            continue
        given = {keyword.arg for keyword in node.keywords}
        for parameter in known.parameters[len(node.args) :]:
            name, default = parameter.name, _number(parameter.default)
            if name in given or default is None:
                continue
            named = theirs.named.get(word(name), set()) - own.named.get(word(name), set())
            values = dict.fromkeys(lacking[:FEW], LEFT_OUT) | dict.fromkeys(_finite(named), SAME_NAME)
            for value, weight in values.items():
                text = f"{name}={value_text(int(value) if isinstance(default, int) and value == int(value) else value)}"
                at, comma = site.behind_arguments(node)
                whole = f"{site.source.text[site.source.span(node)[0] : at]}{comma}{text})"
                yield site.inserted(at, f"{comma}{text}", other_constant.ID, lacking_words(text, whole), weight)


def _finite(values: Iterable[object]) -> list[float]:
    """The finite floating numbers among some literals."""
    return [value for value in values if isinstance(value, float) and math.isfinite(value)]


def _number(text: str | None) -> float | None:
    """A default that is a number."""
    try:
        value = literal(ast.parse(text or "None", mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    return value if is_number(value) else None  # type: ignore[return-value]


def _of_likeness(site: Site, before: float) -> list[Proposal]:
    """Edits of every kind, by how like the reference's likest statement they make it."""
    found = []
    beside = [words(each.statement) for each in site.beside]
    before_acts = _acting(site.statement)
    seen = {ast.dump(site.statement)}
    for kind, propose in EDITS.items():
        if kind in _OF_POINTS:
            continue
        for proposal in propose(site):
            statement = edited_statement(site, proposal.edit)
            told = ast.dump(statement) if statement is not None else ""
            if statement is None or told in seen or not is_safe(site, statement) or _acting(statement) != before_acts:
                continue
            seen.add(told)
            gain = max((SequenceMatcher(None, words(statement), each, autojunk=False).ratio() for each in beside), default=before) - before
            found.append(replace(proposal, weight=proposal.weight + LIKENESS * gain - RARE.get(kind, 0.0)))
    return sorted(found, key=lambda each: -each.weight)[:MOST]


def _exchanged(reachable: list[_Known], likest: dict[int, tuple[float, int]], theirs: list[_Known], near: _Near) -> Iterator[Proposal]:
    """Neighbours in exchanged places, first those that the reference has so."""
    for known in reachable:
        for body in (getattr(known.statement, part, None) for part in ("body", "orelse", "finalbody")):
            simple = isinstance(body, list) and all(isinstance(each, ast.stmt) for each in body)
            for one, other in pairwise(body) if simple and body else ():
                if not (is_step(one) and is_step(other)) or ast.dump(one) == ast.dump(other) or _acts(one) or _acts(other):
                    continue
                turned = _is_turned(one, other, likest, theirs)
                weight = TURNED if turned else NEIGHBOURS
                yield turned_steps(known.source, one, other, weight + near.gain(known, one), known=turned)


def _is_turned(one: ast.stmt, other: ast.stmt, likest: dict[int, tuple[float, int]], theirs: list[_Known]) -> bool:
    """Whether the reference has the likest of two in one function, the second first."""
    (_, first), (_, second) = (likest.get(id(each), (0.0, -1)) for each in (one, other))
    if first < 0 or second < 0 or theirs[first].home is not theirs[second].home:
        return False
    return theirs[second].statement.lineno < theirs[first].statement.lineno


def _of_branches(site: Site) -> Iterator[Proposal]:
    """An ``if`` and its ``elif`` in the other order: where both hold, the first one decides."""
    first = site.statement
    if not isinstance(first, ast.If) or len(first.orelse) != 1 or not isinstance(first.orelse[0], ast.If):
        return
    second = first.orelse[0]
    if any(_acts(each) for branch in (first, second) for each in branch.body) or first.test.lineno == first.body[0].lineno:
        return
    source = site.source
    spans = [
        source.span(first.test),
        (source.span(first.body[0])[0], source.span(first.body[-1])[1]),
        source.span(second.test),
        (source.span(second.body[0])[0], source.span(second.body[-1])[1]),
    ]
    if any(one[1] > other[0] for one, other in pairwise(spans)):
        return
    texts = [source.text[start:end] for start, end in spans]
    between = [source.text[one[1] : other[0]] for one, other in pairwise(spans)]
    whole = texts[2] + between[0] + texts[3] + between[1] + texts[0] + between[2] + texts[1]
    cause, fix = tried(f"if {texts[0]}: … elif {texts[2]}: …", f"if {texts[2]}: … elif {texts[0]}: …")
    yield Proposal(EXCHANGED, source.edit(spans[0][0], spans[-1][1], whole), cause, fix, BRANCHES)
