"""Arguments that an operation was seen to be given.

The reference's in place of the candidate's, or added to the call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from paralign.catalogue.lookup import entries_of_paddle
from paralign.catalogue.ported_names import argument_names, full_name, is_port, last_name, signature
from paralign.catalogue.source_fixes import simplified
from paralign.repair.edits.sentences import instead, lacking
from paralign.repair.proposals import literal, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.repair.proposals import Proposal, Site

ID = "argument"

#: beside other proposals: both sides' arguments were seen
WEIGHT = 2.5

#: names of operations' arguments that calls write otherwise
_WRITTEN = {"strides": "stride", "paddings": "padding", "dilations": "dilation"}


def propose(site: Site) -> Iterator[Proposal]:
    """The reference's arguments, all that differ at once and each alone."""
    pairs = differing(site)
    calls = [node for node in site.nodes if isinstance(node, ast.Call) and not site.is_foreign(node)]
    for call in calls:
        changes = [change for pair in pairs for change in _changes(site, call, *pair)]
        whole = [first for name in dict.fromkeys(change[0] for change in changes) for first in [_first(changes, name)]]
        if len(whole) > 1:
            yield _together(site, call, [(start, end, text) for _, start, end, text, _ in whole])
        for name, start, end, text, due in changes:
            cause = lacking(f"{name}={due}", text.strip(", ")) if start == end else instead(site.source.text[start:end], text, name)
            at = site.source.edit(start, end, text)
            yield _proposal(at, cause)


def _first(changes: list[tuple[str, int, int, str, str]], name: str) -> tuple[str, int, int, str, str]:
    return next(change for change in changes if change[0] == name)


def _proposal(edit: Any, words: Any) -> Proposal:
    from paralign.repair.proposals import Proposal

    return Proposal(ID, edit, words[0], words[1], WEIGHT)


def differing(site: Site) -> list[tuple[str, Any, Any]]:
    """Name and both values of arguments that differ.

    The name is the reference's; the candidate's value is Ellipsis where it is not known.
    """
    own, theirs = (p.arguments if p is not None else {} for p in (site.divergence.candidate, site.divergence.reference))
    found = []
    for name, due in theirs.items():
        written = _WRITTEN.get(name, name)
        known = [n for n in own if _WRITTEN.get(n, n) in argument_names(written, site.framework)]
        value = own[known[0]] if known else ...
        if value is ... or _spread(value) != _spread(due):
            found.append((written, value, due))
    return found


def _spread(value: Any) -> Any:
    if isinstance(value, list | tuple) and value and all(each == value[0] for each in value):
        return value[0]
    return tuple(value) if isinstance(value, list) else value


def _changes(site: Site, call: ast.Call, name: str, value: Any, due: Any) -> Iterator[tuple[str, int, int, str, str]]:
    """Name, place and text of each way to hand the reference's value to a call."""
    text = value_text(_spread(due))
    if not text:
        return
    names = argument_names(name, site.framework)
    for each in call.keywords:
        if each.arg in names:
            due_text = _in_port(site, call, str(each.arg), name, text)
            if literal(each.value) is ... or literal(each.value) != due:
                yield (str(each.arg), *site.source.span(each.value), due_text, due_text)
            return
    if value is not ...:
        for node in call.args:
            if literal(node) is not ... and literal(node) == _spread(value):
                yield (name, *site.source.span(node), text, text)
                return
    known = signature(site.framework, last_name(call))
    offered = [n for n in names if known is not None and n in known.names]
    place = known.names.index(offered[0]) if known is not None and offered else -1
    if known is not None and offered and place >= len(call.args):
        due_text = _in_port(site, call, offered[0], name, text)
        at, comma = site.behind_arguments(call)
        yield (offered[0], at, at, f"{comma}{offered[0]}={due_text}", due_text)


def _in_port(site: Site, call: ast.Call, argument: str, name: str, text: str) -> str:
    """A value as the port's call takes it, where the catalogue knows how it is turned.

    A momentum becomes one minus it.
    """
    if not is_port(site.framework):
        return text
    for entry in entries_of_paddle(full_name("paddle", last_name(call))):
        template = entry.fix.set.get(argument, "")
        if template and f"{{{name}}}" in template:
            filled = simplified(template.replace(f"{{{name}}}", text))
            if "{" not in filled:
                return filled
    return text


def _together(site: Site, call: ast.Call, changes: list[tuple[int, int, str]]) -> Proposal:
    """Several changes of one call as one edit."""
    ordered = sorted(changes)
    start, end = ordered[0][0], max(change[1] for change in ordered)
    parts, at = [], start
    for first, last, text in ordered:
        if first < at:
            continue
        parts += [site.source.text[at:first], text]
        at = last
    parts.append(site.source.text[at:end])
    text = "".join(parts)
    return _proposal(site.source.edit(start, end, text), instead(site.text(call), _with(site, call, start, end, text), last_name(call)))


def _with(site: Site, call: ast.Call, start: int, end: int, text: str) -> str:
    first, last = site.source.span(call)
    return site.source.text[first:start] + text + site.source.text[end:last]
