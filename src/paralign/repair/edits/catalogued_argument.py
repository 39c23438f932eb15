"""Arguments that the catalogue of differences, or the reference's own call, says to write."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.binding import bind
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Words
from paralign.catalogue.lookup import entries_of, entries_of_paddle
from paralign.catalogue.ported_names import argument_names, full_name, is_port, last_name, ported, signature
from paralign.catalogue.source_fixes import NotApplicable, filled
from paralign.repair.edits.sentences import beyond, instead, lacking
from paralign.repair.proposals import literal
from paralign.repair.translated import translated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.catalogue.entries import Entry
    from paralign.repair.proposals import Beside, Proposal, Site

ID = "catalogue"

#: beside other proposals: a difference that the catalogue has measured; an argument of the reference's call; one that it has not
MEASURED, WRITTEN, UNWRITTEN = 2.0, 1.6, 0.6


def propose(site: Site) -> Iterator[Proposal]:
    """Arguments of the catalogue's fixes, and of the reference's call of the same name."""
    for call in [node for node in site.nodes if isinstance(node, ast.Call) and not site.is_foreign(node)]:
        theirs = _counterparts(site, call)
        for their in theirs:
            yield from _of_entries(site, call, their)
            yield from _of_call(site, call, their)
        if not theirs:
            for entry in entries_of_paddle(full_name("paddle", last_name(call))) if is_port(site.framework) else ():
                yield from _of_entry(site, call, entry, {n: t for n, t in entry.fix.set.items() if "{" not in t})
        for each in call.keywords:
            if each.arg and theirs and not any(_has(their, str(each.arg), site) for their in theirs):
                yield _without(site, call, each)


def _counterparts(site: Site, call: ast.Call) -> list[ast.Call]:
    """Calls of the reference's statements that are this call in its framework."""
    own = last_name(call)
    found: list[ast.Call] = []
    for beside in site.beside:
        calls = [node for node in beside.nodes if isinstance(node, ast.Call)]
        found += [node for node in calls if ported(last_name(node), site.framework).lower() == own.lower()]
        found += [node for node in calls if not found and _are_optimizers(site, node, call)]
    return found[:2]


def _are_optimizers(site: Site, their: ast.Call, own: ast.Call) -> bool:
    """Whether both calls build an optimizer: SGD with a momentum has another name in Paddle."""
    homes = full_name("torch", last_name(their)).rpartition(".")[0], full_name(site.framework, last_name(own)).rpartition(".")[0]
    return homes in {("torch.optim", "paddle.optimizer"), ("torch.optim", "torch.optim")}


def _of_entries(site: Site, call: ast.Call, their: ast.Call) -> Iterator[Proposal]:
    """The fixes of the catalogue that the reference's call asks for."""
    name = full_name("torch", last_name(their))
    known = signature("torch", last_name(their))
    if not is_port(site.framework) or not name or known is None:
        return
    bound = bind(known, their.args, their.keywords)
    for entry in entries_of(name):
        if not entry.fix.set or holds(entry.when, bound) is False:
            continue
        try:
            texts = {argument: filled(template, bound) for argument, template in entry.fix.set.items()}
        except (NotApplicable, ValueError):
            continue
        yield from _of_entry(site, call, entry, texts)


def _of_entry(site: Site, call: ast.Call, entry: Entry, texts: dict[str, str]) -> Iterator[Proposal]:
    for argument, text in texts.items():
        said = Words(entry.fix.words.en or f"write {argument}={text}", entry.fix.words.zh or f"写 {argument}={text}")
        yield from _set(site, call, argument, text, (entry.differs, said), MEASURED)


def _of_call(site: Site, call: ast.Call, their: ast.Call) -> Iterator[Proposal]:
    """The arguments that the reference writes."""
    known = signature("torch", last_name(their))
    given = {str(k.arg): k.value for k in their.keywords if k.arg}
    if known is not None:
        given = {**bind(known, their.args, their.keywords).given, **given}
    source = site.beside[0]
    offered = signature(site.framework, last_name(call))
    offered_names = [] if offered is None else offered.names
    for name, value in given.items():
        names = argument_names(name, site.framework)
        ours = next((k for k in call.keywords if k.arg in names), None)
        text = _text_of(site, value, source)
        if text is None or (ours is not None and _is_written_so(site, ours.value, text, value)):
            continue
        argument = next((n for n in names if n in offered_names), None) if ours is None else ours.arg
        if argument is None or argument in offered_names[: len(call.args)]:
            continue
        words = lacking(f"{name}={text}", f"{argument}={text}") if ours is None else instead(site.text(ours.value), text, name)
        yield from _set(site, call, argument, text, words, WRITTEN)


def _is_written_so(site: Site, own: ast.expr, text: str, value: ast.expr) -> bool:
    """Whether the candidate writes an argument as the reference does, by its text or value."""
    if site.text(own) == text:
        return True
    return literal(own) is not ... and literal(own) == literal(value)


def _text_of(site: Site, value: ast.expr, beside: Beside) -> str | None:
    """An argument of the reference's as the candidate can write it.

    A literal, or an expression of names that it has too.
    """
    return translated(site, beside, value) or None


def _has(their: ast.Call, argument: str, site: Site) -> bool:
    """Whether the reference's call gives an argument, by name or by place."""
    known = signature("torch", last_name(their))
    given = {str(k.arg) for k in their.keywords}
    if known is not None:
        given |= set(known.names[: len(their.args)])
    return any(argument in argument_names(name, site.framework) for name in given)


def _set(site: Site, call: ast.Call, argument: str, text: str, words: tuple[Words, Words], weight: float) -> Iterator[Proposal]:
    """A call with an argument of a value: replaced where it is written, else added."""
    for each in call.keywords:
        if each.arg == argument:
            if site.text(each.value) != text:
                yield site.replaced(each.value, text, ID, words, weight)
            return
    at, comma = site.behind_arguments(call)
    yield site.inserted(at, f"{comma}{argument}={text}", ID, words, weight)


def _without(site: Site, call: ast.Call, keyword: ast.keyword) -> Proposal:
    """A call without one of its named arguments, and without the comma before or behind it."""
    start, end = site.source.span(keyword)
    first, last = site.source.span(call)
    head, tail = site.source.text[first:start].rstrip(), site.source.text[end:last]
    if head.endswith(","):
        start = first + len(head) - 1
    elif tail.lstrip().startswith(","):
        end += len(tail) - len(tail.lstrip()) + 1
    from paralign.repair.proposals import Proposal

    words = beyond(site.text(keyword), "")
    return Proposal(ID, site.source.edit(start, end, ""), words[0], words[1], UNWRITTEN)
