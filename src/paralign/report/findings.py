"""What a finding says in the language that is spoken.

The catalogue has its entries in Chinese.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from paralign.errors import one_line
from paralign.report.language import current, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import Finding

#: how rules that come from the catalogue begin
CATALOGUE = "catalogue/"

#: how the rule of a point begins that a proven edit has named
EDITED = "repair/"

#: lines of a unified diff that name its file, and changed lines that are shown: the patch itself has all
HEAD, SHOWN = 2, 6

#: what stands before the name of the changed file in a unified diff
NAMED = "+++ b/"


def words(finding: Finding) -> tuple[str, str]:
    """Cause and fix of a finding.

    English where neither the catalogue nor the tables of sentences have it.
    """
    if current() == "zh" and finding.cause_zh:
        return finding.cause_zh, finding.fix_zh
    if current() != "zh" or not finding.rule.startswith(CATALOGUE):
        return say(finding.cause), say(finding.fix)
    from paralign.catalogue.lookup import entry_of
    from paralign.catalogue.naming import names

    name = finding.rule[len(CATALOGUE) :]
    entry = entry_of(name)
    if entry is not None:
        only = f" {say('Only: {what}', what=entry.data.of('zh'))}" if entry.data.en else ""
        return entry.differs.of("zh") + only, entry.fix.words.of("zh")
    missing = names().missing.get(name)
    return say(finding.cause), say(finding.fix) if missing is None else missing.of("zh")


def experiment(finding: Finding, figure: Callable[[float | None], str]) -> str:
    """What came of trying a cause, in a sentence; '' where it was not tried.

    Args:
        finding: the cause.
        figure: writes an error.
    """
    if finding.error_after is None:
        return ""
    before, after = figure(finding.error_before), figure(finding.error_after)
    if finding.proven and finding.error_before is None and not finding.together:
        return say("proven: with this changed the error is {after}", after=after)
    if finding.together:
        both = "proven together with the edit at {places}: with both the error goes from {before} to {after}"
        return say(both, places=", ".join(map(one_line, finding.together)), before=before, after=after)
    if not finding.proven:
        return say("tried on what differs first: with this changed the error goes from {before} to {after}", before=before, after=after)
    return say("proven: with this changed the error goes from {before} to {after}", before=before, after=after)


def mends(finding: Finding | None) -> bool:
    """Whether a cause has a patch with which its stage was aligned."""
    return finding is not None and finding.proven and bool(finding.patch)


def changed_lines(patch: str) -> list[str]:
    """The lines of a unified diff that change, each with its sign."""
    return [line for line in patch.splitlines()[HEAD:] if line[:1] in ("-", "+")]


def edited_place(patch: str, source: str = "") -> str:
    r"""The first line that a unified diff changes, as ``file:line`` of the file as it is.

    '' of a text that is no diff. A diff names a file outside of the project's folder without the slash that its path begins with:
    ``source`` is a place (``file:line``) that may lie in the same file, whose whole path is then kept.

    >>> diff = "--- a/code/net.py\n+++ b/code/net.py\n@@ -4,2 +4,2 @@\n x = 1\n-y = 2\n+y = 3\n"
    >>> edited_place(diff), edited_place(diff, "/code/net.py:9"), edited_place(diff, "/code/other.py:9")
    ('code/net.py:5', '/code/net.py:5', 'code/net.py:5')
    """
    lines = patch.splitlines()
    if len(lines) <= HEAD or not lines[1].startswith(NAMED):
        return ""
    hunk = re.match(r"@@ -(\d+)", lines[HEAD])
    if hunk is None:
        return ""
    before = next((number for number, line in enumerate(lines[HEAD + 1 :]) if line[:1] in ("-", "+")), 0)
    name, known = lines[1].removeprefix(NAMED), source.rpartition(":")[0]
    return f"{known if known.lstrip('/') == name else name}:{int(hunk[1]) + before}"


def patched(stage: str, finding: Finding) -> list[str]:
    """A finding with a patch, for people.

    The sentence, the lines that change, the evidence in a line, what is gone and what stays.
    """
    cause, fix = words(finding)
    lines = [f"{stage}: {cause}", f"  {fix}", *(f"    {line}" for line in changed_lines(finding.patch)[:SHOWN])]
    before, after = ("-" if error is None else f"{error:.3g}" for error in (finding.error_before, finding.error_after))
    if finding.together:
        both = (
            "  proven together with the edit at {places}: with both the stage is aligned, with one it is not (error {before}, then {after})"
        )
        lines.append(say(both, places=", ".join(finding.together), before=before, after=after))
    else:
        lines.append(say("  proven: with this edit the stage is aligned (error {before}, then {after})", before=before, after=after))
    if finding.gone:
        lines.append(say("  gone with this patch: {stages}", stages=", ".join(finding.gone)))
    if finding.stays:
        lines.append(say("  not gone: {stages}", stages=", ".join(finding.stays)))
    return lines
