"""``paralign init DIR --reference REPOSITORY``: what was found, and what was written."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.scaffold.survey import Survey

#: names that are listed of each kind
SHOWN = 8


def from_reference(directory: Path, repository: Path, model: str) -> int:
    """Read a repository, write a project for it, and say what was found."""
    from paralign.scaffold import input_tables, survey, write
    from paralign.scaffold.skeleton import choose

    found = survey(repository)
    paths = write(directory, found, model)
    print("\n".join([*_told(found), input_tables.told(found, choose(found, model).model)]))
    for path in paths:
        print(path)
    place = shlex.quote(str(directory))
    what = say("the lines marked CHECK in {place}, the port below {place}/port, then: paralign check {place}", place=place)
    print("\n" + say("next: {what}", what=what))
    return 0


def _told(found: Survey) -> list[str]:
    from paralign.errors import one_line
    from paralign.scaffold.survey import Kind

    lines = [say("read {count} files of {root}", count=len(found.files), root=one_line(str(found.root)))]
    for kind in Kind:
        classes = found.models if kind is Kind.MODEL else found.classes(kind)
        names = [f"{each.name} ({each.place})" for each in classes] + [f"{each.name} ({each.place})" for each in found.used(kind)]
        more = say(" and {count} more", count=len(names) - SHOWN) if len(names) > SHOWN else ""
        shown = one_line(", ".join(names[:SHOWN])) + more if names else say("none found")
        lines.append(f"  {say(kind.value)}: {shown}")
    lines += [f"  {say('not read')}: {one_line(str(path))}: {say(one_line(why))}" for path, why in found.unread]
    return lines
