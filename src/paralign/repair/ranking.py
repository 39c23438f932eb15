"""Which proposals to try first: what was measured, then what is more like the reference."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from paralign.catalogue.ported_names import full_name, words
from paralign.repair.edited_source import Source, Unreadable, header_end
from paralign.repair.edited_statement import edited_statement
from paralign.repair.edits import EDITS, exchanged_steps, missing_part, missing_statement
from paralign.repair.edits.missing_part import joined
from paralign.repair.proposals import literal, literal_key, name_of, parts_of, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.repair.proposals import Proposal, Site

#: what a statement that becomes the reference's earns, beside the weights of the kinds of edits
LIKENESS = 2.5

#: what an edit loses that does not touch the line that was named
ASIDE = 0.5

#: what the kind of a point adds to kinds of edits
KINDS = {
    "missing": {"missing": 0.6, "layer": 0.6, "entry": 0.6, "statement": 0.6},
    "extra": {"extra": 0.6},
    "miswired": {"name": 0.6, "order": 0.3},
    "order": {"order": 0.6},
}

#: what each further proposal of a kind loses, so that those of other kinds are tried between them
CROWD = 0.08

#: what an edit earns that writes a change of which the values have shown that it makes the result right; one of the same kind
SHOWN, LIKE_SHOWN = 2.5, 0.8

#: words of such a change -> kinds of edits that it may be in the source
CHANGES = {
    " exchanged": {"order", "turned"},
    " left out": {"extra"},
    " taken back": {"extra"},
    "along axis ": {"constant", "argument-left-out"},
    " in place of ": {"constant", "operator", "function", "sign", "off-by-one"},
    "another value is taken": {"name"},
    " first": {"missing"},
    " is missing": {"missing"},
}

#: proposals of one statement that are looked at: each is parsed
MOST = 1500

#: a patch with more numbers than a setting has would only copy the reference's results
NUMBERS = 4

#: names of calls that change files or start programs
CHANGING = frozenset({
    "remove", "unlink", "rmtree", "rmdir", "move", "copyfile", "copytree", "copy2", "write", "write_text", "write_bytes", "writelines",
    "writerow", "writerows", "mkdir", "makedirs", "touch", "truncate", "symlink", "symlink_to", "hardlink_to", "chmod", "dump", "save",
    "savez", "savez_compressed", "savetxt", "savefig", "tofile", "imwrite", "imsave", "to_csv", "to_json", "to_parquet", "to_pickle",
    "system", "popen", "Popen", "check_call", "check_output", "exec", "eval",
})  # fmt: skip

#: names that no edit may bring in: they act on the world, or run what is no source
FORBIDDEN = CHANGING | {
    "eval", "exec", "compile", "open", "input", "breakpoint", "system", "popen", "remove", "unlink", "rmtree", "rmdir", "rename", "load",
    "save", "savez", "savetxt", "fromfile", "tofile", "getattr", "setattr", "delattr", "globals", "locals", "vars", "import_module",
    "os", "sys", "subprocess", "shutil", "pathlib", "socket", "pickle", "ctypes", "exit", "quit",
}  # fmt: skip


#: a change of a formula, in a report's words: another name
_IN_PLACE = re.compile(r"`(\w+)` in place of `(\w+)`")

#: modules most of whose calls do
_OF_FILES = frozenset({"shutil", "subprocess"})


def changes_files(node: ast.AST) -> bool:
    """Whether a piece of code calls what changes files or starts programs."""
    return any(isinstance(each, ast.Call) and _changes(each) for each in ast.walk(node))


def _changes(call: ast.Call) -> bool:
    name = str(getattr(call.func, "id", None) or getattr(call.func, "attr", ""))
    base = getattr(call.func, "value", None)
    root = str(getattr(base, "id", ""))
    if name in CHANGING or root in _OF_FILES or (root == "os" and name in ("rename", "replace")):
        return True
    if name != "open":
        return False
    modes = [literal(each) for each in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]]
    return any(not isinstance(mode, str) or not mode.startswith("r") or "+" in mode for mode in modes)


def ranked(site: Site) -> list[Proposal]:
    """The likeliest proposals first, of all kinds of edits.

    Each result stands there once, told by the smallest edit that has it.
    """
    original = words(site.statement)
    before = max((_alike(original, words(each.statement)) for each in site.beside), default=0.0)
    unchanged = {ast.dump(each) for each in (site.statement, edited_statement(site)) if each is not None}
    places: dict[str, int] = {}
    found: list[Proposal] = []
    for proposal in _all(site):
        statement = _statement(site, proposal)
        if not isinstance(statement, ast.stmt):
            if statement and proposal.edit.text in ("", "pass"):
                found.append(proposal)
            continue
        is_inserted = proposal.edit.start == proposal.edit.end and proposal.rule == missing_statement.ID
        outcome = ast.dump(statement) + (f" at {proposal.edit.start}" if is_inserted else "")
        if outcome in unchanged or not is_safe(site, statement):
            continue
        if outcome in places:
            known = found[places[outcome]]
            if _size(proposal) < _size(known):
                found[places[outcome]] = replace(proposal, weight=known.weight)
            continue
        places[outcome] = len(found)
        told = words(statement)
        gain = max((_alike(told, words(each.statement)) for each in site.beside), default=0.0) - before
        gain *= proposal.rule != exchanged_steps.ID  # another statement stands there then
        aside = ASIDE * (not _touches(site, proposal))
        more = KINDS.get(site.divergence.what, {}).get(proposal.rule, 0.0)
        found.append(replace(proposal, weight=proposal.weight + LIKENESS * gain + more - aside + _shown(site, proposal)))
    return _spread(sorted(found, key=lambda each: -each.weight))


def _spread(found: list[Proposal]) -> list[Proposal]:
    """Proposals in the order of their weights, where each further one of a kind counts less."""
    seen: Counter[str] = Counter()
    spread = []
    for each in found:
        spread.append(replace(each, weight=each.weight - CROWD * seen[each.rule]))
        seen[each.rule] += 1
    return sorted(spread, key=lambda each: -each.weight)


def _shown(site: Site, proposal: Proposal) -> float:
    """What a proposal earns where one change of the formula was seen to make its result right."""
    told = site.divergence.relation
    edit = proposal.edit
    if not told:
        return 0.0
    if (named := _IN_PLACE.search(told)) is not None:
        return SHOWN if (edit.text, site.source.text[edit.start : edit.end]) == named.groups() else 0.0
    if (term := joined(told)) is not None:
        return SHOWN if proposal.rule == missing_part.ID and edit.text.strip("()").endswith(f" {term[0]} {term[1]}") else 0.0
    return LIKE_SHOWN if any(words in told and proposal.rule in kinds for words, kinds in CHANGES.items()) else 0.0


def _all(site: Site) -> Iterable[Proposal]:
    found: list[Proposal] = []
    for propose in EDITS.values():
        found += list(propose(site))
    return sorted(found, key=lambda each: -each.weight)[:MOST]


def _size(proposal: Proposal) -> int:
    """How many characters an edit takes away and brings in."""
    edit = proposal.edit
    return edit.end - edit.start + len(edit.text)


def _alike(one: list[str], other: list[str]) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _touches(site: Site, proposal: Proposal) -> bool:
    """Whether an edit changes the line that was named."""
    first, last = site.source.line_span(site.line, site.line)
    return proposal.edit.start <= last and proposal.edit.end >= first


def _statement(site: Site, proposal: Proposal) -> ast.stmt | bool:
    """The statement after an edit; True where it is gone as a whole.

    False where the edit is no Python or changes more than it.
    """
    if proposal.rule not in (missing_statement.ID, "extra") and (alone := edited_statement(site, proposal.edit)) is not None:
        return alone if type(alone) is type(site.statement) else False
    try:
        after = Source(site.source.path, proposal.edit.applied())
    except Unreadable:
        return False
    before = sum(1 for _ in site.source.statements())
    now = sum(1 for _ in after.statements())
    if proposal.edit.text in ("", "pass") and now <= before and proposal.rule == "extra":
        return True
    if proposal.rule == missing_statement.ID and now == before + 1:
        behind = proposal.edit.start > site.source.span(site.statement)[0]
        added = statement_at(after, header_end(site.statement) + 1 if behind else site.statement.lineno)
        return added[0] if added is not None else False
    found = statement_at(after, site.statement.lineno)
    if now != before or found is None or type(found[0]) is not type(site.statement):
        return False
    return found[0] if header_end(found[0]) >= site.statement.lineno else False


def is_safe(site: Site, statement: ast.stmt) -> bool:
    """Whether an edit brings in known names alone, few numbers, and nothing that acts.

    Names are those of the file and of its framework; acting is on the world.
    """
    own = list(parts_of(statement))
    old = list(site.nodes)
    known = {name_of(node) for node in old}
    keywords = {str(node.arg) for node in own if isinstance(node, ast.keyword)}
    for name in {name_of(node) for node in own} - known - {""}:
        if name in FORBIDDEN or name.startswith("__"):
            return False
        if name in keywords:
            continue
        spoken = any(name in each.spoken for each in site.beside)
        if name not in site.identifiers and not full_name(site.framework, name) and not spoken:
            return False
    written, known_literals = (Counter(literal_key(literal(node)) for node in nodes if literal(node) is not ...) for nodes in (own, old))
    return (written - known_literals).total() <= NUMBERS
