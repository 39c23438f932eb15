"""The entry of a parameter group that gives its parameters a wrong setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.locate.provenance.search.blame import Search
from paralign.locate.provenance.search.blamed import Blamed
from paralign.locate.provenance.tracing_back import STEPS, name, recorded, wrong_itself
from paralign.locate.provenance.values.expression_counterparts import is_equal, origin
from paralign.locate.provenance.values.readings import setting_of, taken_as
from paralign.locate.provenance.values.seen_values import Seen
from paralign.locate.provenance.values.value_graph import SETTING
from paralign.locate.source.call_arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from paralign.context import Context
    from paralign.locate.provenance.tracing_back import Sides
    from paralign.locate.provenance.values.value_graph import Expression, ValueGraph
    from paralign.model import Divergence

#: what a group calls its parameters
PARAMETERS = ("params", "parameters")

#: what holds settings by name
TABLES = frozenset({"dict", "SimpleNamespace"})

#: roles in a dict that are no names of entries
_HOLDING = ("key", "**")


@dataclass(frozen=True)
class Group:
    """A group of the candidate's optimizer that has a setting wrong, as not all have.

    Args:
        number: of the first such group, from 0.
        wrong: the numbers of all of them.
        count: how many groups there are.
        words: what the setting may be called.
        due: the number of the reference's group that has the same parameters, if there is one.
    """

    number: int
    wrong: Collection[int]
    count: int
    words: Sequence[str]
    due: int | None = None


def follow(context: Context, divergence: Divergence | None, group: Group) -> bool:
    """Name the entry that gives a group its wrong setting; whether there is one."""
    sides = recorded(context, "optimizer", steps=STEPS) if divergence is not None else None
    found = None if sides is None else of_group(sides, group)
    if found is None:
        return False
    name(divergence, found)
    return True


def of_group(sides: Sides, group: Group) -> Blamed | None:
    """What made the setting of a group wrong.

    The expression of the entry, or what made it of right values. Where the group has no such entry and the reference's groups do, what
    makes the group. None where the groups are put together otherwise.
    """
    written = groups_of(sides.candidate)
    if len(written) != group.count or group.number >= group.count:
        return None
    made = written[group.number]
    entry = _entry(made, group.words)
    if entry is None:
        return _lacking(sides, made, group)
    key, value = entry
    decided = _decided(value, [_entry(each, group.words) for place, each in enumerate(written) if place not in group.wrong])
    if decided is not None:
        decided.note = f"this decides which groups have the {_word(key, group)} {value.scalar!r}"
        return decided
    if not value.file or value.numbers is None:
        return None
    known = Seen([*sides.reference.building(), *_settings_behind(sides.reference.building())])
    strange = Search(value, None, known, sides.reference.expressions).first() if known.has(value) is False else None
    found = wrong_itself(sides, strange)
    if found is not None:
        return found
    beside = made if key is value else key
    placed = _other_in_files(sides, value) or (value if _is_made_for(value, made) else beside)
    return Blamed(placed, [placed, value], _due(sides, group), placed=True, note=_said(group, _word(key, group), value))


def _due(sides: Sides, group: Group) -> Expression | None:
    """The entry that the reference's group of the same parameters has.

    Its value, or the key where the value stands elsewhere.
    """
    theirs = groups_of(sides.reference)
    entry = _entry(theirs[group.due], group.words) if group.due is not None and group.due < len(theirs) else None
    if entry is None:
        return None
    key, value = entry
    return value if value.source == key.source else key


def _said(group: Group, setting: str, value: Expression) -> str:
    """What an entry gives its group, in words."""
    number, count = group.number + 1, group.count
    if is_number(value.scalar):
        return f"this gives the group number {number} of {count} its {setting}, {value.scalar!r}: the reference's group has another"
    return f"this gives the group number {number} of {count} its {setting}: the reference's group has another"


def _word(key: Expression, group: Group) -> str:
    """What an entry's setting is called; the usual name without a text for a key."""
    return key.scalar if isinstance(key.scalar, str) else group.words[0]


def groups_of(graph: ValueGraph) -> list[Expression]:
    """What makes the groups that an optimizer is built with, in their order."""
    return [each for each in graph.building() if _is_group(each)]


def _is_group(each: Expression) -> bool:
    """Whether a dict with parameters is written out, or called for."""
    is_dict = each.label == "dict" and each.kind in ("display", "call")
    return is_dict and bool(each.file) and any(key in PARAMETERS for key in _keys(each))


def _keys(made: Expression) -> Iterable[str]:
    """The texts under which a dict has its entries."""
    for role, inner in made.inputs:
        if role == "key" and isinstance(inner.scalar, str):
            yield inner.scalar
        elif role not in _HOLDING and not role.isdecimal():
            yield role


def _entry(made: Expression, words: Collection[str]) -> tuple[Expression, Expression] | None:
    """The key and the value of the entry that a group has under one of some names.

    Of ``dict(lr=x)`` the value stands for its key.
    """
    key: Expression | None = None
    for role, inner in made.inputs:
        if role == "key":
            key = inner
        elif role in words:
            return inner, inner
        elif key is not None and role not in _HOLDING:
            if key.scalar in words:
                return key, inner
            key = None
    return None


def _decided(value: Expression, right: Iterable[tuple[Expression, Expression] | None]) -> Blamed | None:
    """The condition that gave a group its value, as it rightly gave others the same."""
    test = taken_as(value, "test")
    others = [entry[1] for entry in right if entry is not None]
    if test is None or not any(other.site == value.site and is_equal(other, value) for other in others):
        return None
    made = origin(test)
    return Blamed(made, [made, value]) if made.file else None


def _is_made_for(value: Expression, made: Expression) -> bool:
    """Whether a value is made for a group and for nothing else.

    Tables of settings only hold it.
    """
    return all(user is made or user.is_copy or _is_table(user) for user in value.users)


def _is_table(user: Expression) -> bool:
    """Whether this puts settings under names, whatever takes them from there."""
    return user.kind in ("display", "call") and user.word in TABLES and not _is_group(user)


def _other_in_files(sides: Sides, value: Expression) -> Expression | None:
    """The entry of the candidate's files that a value was read from.

    None unless the reference's files have it under the same name, with another value.
    """
    setting = setting_of(value)
    if setting is None:
        return None
    due = [each for each in _settings_behind(sides.reference.building()) if _named(each) == _named(setting)]
    return setting if due and not any(is_equal(each, setting) for each in due) else None


def _named(setting: Expression) -> str:
    """The name of an entry, without the tables around it."""
    return str(setting.label).rpartition(".")[2]


def _settings_behind(expressions: Iterable[Expression]) -> list[Expression]:
    """The entries of files that some expressions read."""
    return [inner for each in expressions for _, inner in each.inputs if inner.kind == SETTING]


def _lacking(sides: Sides, made: Expression, group: Group) -> Blamed | None:
    """The group, where only the reference's groups have an entry of the kind."""
    theirs = groups_of(sides.reference)
    beside = _entry(theirs[group.due], group.words) if group.due is not None and group.due < len(theirs) else None
    own = [entry for each in groups_of(sides.candidate) if (entry := _entry(each, group.words)) is not None]
    due = [entry for each in theirs if (entry := _entry(each, group.words)) is not None]
    missing = [key for key, value in due if not any(is_equal(held, value) for _, held in own)]
    if beside is not None:
        missing = [beside[0]]
    if not missing:
        return None
    key = missing[0]
    told = f"this group has no {_word(key, group)} of its own, one of the reference's groups has ({key.source})"
    return Blamed(made, [made], key, note=told)
