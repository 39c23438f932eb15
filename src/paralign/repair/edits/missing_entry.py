"""An entry that the reference's list or call has and the candidate's lacks.

A layer of a ``Sequential``, a transform of a list.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import last_name, ported, words
from paralign.repair.edits.sentences import lacking
from paralign.repair.translated import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "entry"

#: beside other proposals: an entry is there on one side only
WEIGHT = 1.4


def propose(site: Site) -> Iterator[Proposal]:
    """Each entry that only the reference's list has, at its place among those that both have."""
    own = [(node, _entries(node)) for node in site.nodes]
    for beside in site.beside:
        for node in beside.nodes:
            theirs = _entries(node)
            for ours, entries in own:
                if not _alike(site, ours, node) or not len(entries) < len(theirs) or not entries:
                    continue
                for place, entry in _lacked(entries, theirs):
                    text = translated(site, beside, entry)
                    if text:
                        yield _inserted(site, entries, place, text)


def _entries(node: ast.AST) -> list[ast.expr]:
    """The entries of a list, a tuple or a call whose arguments are calls."""
    if isinstance(node, ast.List | ast.Tuple):
        return [] if any(isinstance(each, ast.Starred) for each in node.elts) else list(node.elts)
    if isinstance(node, ast.Call) and not any(isinstance(each, ast.Starred) for each in node.args):
        return list(node.args)
    return []


def _alike(site: Site, ours: ast.AST, theirs: ast.AST) -> bool:
    if isinstance(ours, ast.Call) and isinstance(theirs, ast.Call):
        return ported(last_name(theirs), site.framework) == last_name(ours)
    return type(ours) is type(theirs) and isinstance(ours, ast.List | ast.Tuple)


def _lacked(entries: list[ast.expr], theirs: list[ast.expr]) -> Iterator[tuple[int, ast.expr]]:
    """Entries without a counterpart, and before which of the candidate's they belong."""
    place = 0
    for entry in theirs:
        if place < len(entries) and words(entry)[:1] == words(entries[place])[:1]:
            place += 1
        else:
            yield place, entry


def _inserted(site: Site, entries: list[ast.expr], place: int, text: str) -> Proposal:
    if place < len(entries):
        return site.inserted(site.source.span(entries[place])[0], f"{text}, ", ID, lacking(text, text), WEIGHT)
    return site.inserted(site.source.span(entries[-1])[1], f", {text}", ID, lacking(text, text), WEIGHT)
