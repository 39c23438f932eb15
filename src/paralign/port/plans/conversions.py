"""What is known beside the catalogue for a rewriting.

The tables ``conversions*.toml``, and which arguments were ever executed.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from paralign.catalogue.binding import UNREADABLE, bind, value_of
from paralign.catalogue.lookup import entries_of
from paralign.catalogue.naming import function_of, torch_signature
from paralign.catalogue.parameters import TABLES, Signature, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.catalogue.entries import Entry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Way:
    """How one callable is written: a template, or the call under Paddle's name.

    In the latter, arguments are listed.

    ``instead`` are templates for calls that give an argument another value than its default, ``spelled`` for calls that give it at all,
    ``absent`` for calls that may not give it, or None, ``either`` for calls that give one which is no number by its form, ``single`` one
    which is not several numbers. ``open`` writes a call of ``*arguments``. ``only`` are values that arguments must have for the template to
    be right. ``sets`` are arguments that others are written for, and these. ``ignored`` are arguments that a template may leave out.
    ``told`` is a condition that the ledger says of every call, ``refuses`` says when the written call raises.
    """

    template: str = ""
    same: frozenset[str] = frozenset()
    call: str = ""
    instead: tuple[tuple[str, str], ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    either: tuple[tuple[str, str], ...] = ()
    single: tuple[tuple[str, str], ...] = ()
    open: str = ""
    only: tuple[tuple[str, object], ...] = ()
    ignored: frozenset[str] = frozenset()
    told: str = ""
    refuses: str = ""
    sets: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    def written(self, argument: str) -> dict[str, str]:
        """What is written in the place of an argument; empty where it stays."""
        return dict(next((texts for name, texts in self.sets if name == argument), ()))


@dataclass(frozen=True)
class Conversions:
    """The content of ``conversions.toml`` and the tables beside it."""

    always: frozenset[str]
    either: frozenset[str]
    accepted: frozenset[str]
    switched: dict[str, str]
    covered: frozenset[str]
    dropped: frozenset[str]
    bases: frozenset[str]
    values: frozenset[str]
    learned: frozenset[str]
    constants: dict[str, str]
    kinds: dict[str, str]
    modules: dict[str, str]
    layers: dict[str, dict[str, str]]
    helpers: dict[str, str]
    signatures: dict[str, Signature]
    attributes: dict[str, dict[str, str]]
    calls: dict[str, Way]
    grouped: dict[str, Way]
    base_helpers: dict[str, str]
    flags: dict[str, str]
    ranks: dict[str, str]
    aliases: dict[str, str]
    layer_attributes: dict[str, str]
    known_attributes: dict[str, str]
    absent_attributes: dict[str, list[str]]
    joined: dict[str, str]
    bounded: dict[str, str]
    paired: dict[str, str]
    widened: dict[str, str]
    counted: dict[str, str]
    summed: dict[str, str]
    twice: dict[str, str]


@cache
def conversions() -> Conversions:
    """Read the tables, once."""
    content: dict[str, Any] = {}
    for path in sorted(TABLES.glob("conversions*.toml")):
        for name, part in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if isinstance(part, dict):
                content.setdefault(name, {}).update(part)
            else:
                content.setdefault(name, []).extend(part)
    sets = {name: frozenset(content[name]) for name in ("always", "either", "accepted", "covered", "dropped", "bases", "values", "learned")}
    ways = {name: _way(raw) for name, raw in content["calls"].items()}
    for name, arguments in content["same"].items():
        known = ways.get(name, Way())
        ways[name] = replace(known, same=known.same | frozenset(arguments))
    return Conversions(
        **sets,
        constants=content["constants"],
        kinds=content["kinds"],
        switched=content["switched"],
        modules=content["modules"],
        layers=content["layers"],
        helpers={name: text.lstrip("\n") for name, text in content["helpers"].items()},
        signatures={name: parse(text) for name, text in content["signatures"].items()},
        attributes=content["attributes"],
        calls=ways,
        grouped={name: _way(raw) for name, raw in content["grouped"].items()},
        base_helpers=content["base_helpers"],
        flags=content["flags"],
        ranks=content["ranks"],
        aliases=content["aliases"],
        layer_attributes=content["layer_attributes"],
        known_attributes=content["known_attributes"],
        absent_attributes=content["absent_attributes"],
        joined=content["joined"],
        bounded=content["bounded"],
        paired=content["paired"],
        widened=content["widened"],
        counted=content["counted"],
        summed=content["summed"],
        twice=content["twice"],
    )


def _way(raw: str | dict[str, Any]) -> Way:
    if isinstance(raw, str):
        return Way(raw)
    return Way(
        raw.get("template", ""),
        same=frozenset(raw.get("same", ())),
        call=raw.get("call", ""),
        instead=tuple(raw.get("instead", {}).items()),
        spelled=tuple(raw.get("spelled", {}).items()),
        absent=tuple(raw.get("absent", {}).items()),
        either=tuple(raw.get("either", {}).items()),
        single=tuple(raw.get("single", {}).items()),
        open=raw.get("open", ""),
        only=tuple(raw.get("only", {}).items()),
        ignored=frozenset(raw.get("ignored", ())),
        told=raw.get("told", ""),
        refuses=raw.get("refuses", ""),
        sets=tuple((name, tuple(texts.items())) for name, texts in raw.get("set", {}).items()),
    )


@cache
def needed(template: str) -> frozenset[str]:
    """The functions of the tables that a template uses, and those that these use."""
    found: set[str] = set()
    rest = [template]
    while rest:
        used = _mentioned(rest.pop()) - found
        found |= used
        rest += [conversions().helpers[name] for name in used]
    return frozenset(found)


_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@cache
def _mentioned(text: str) -> frozenset[str]:
    """The functions of the tables that a text names itself."""
    return frozenset(_NAME.findall(text)) & conversions().helpers.keys()


def in_order(names: Iterable[str]) -> list[str]:
    """Functions and classes of the tables by name, classes behind their bases."""
    found: list[str] = []
    rest = sorted(names)
    while rest:
        ready = next(each for each in rest if not any(base in rest for base in _bases(each)))
        rest.remove(ready)
        found.append(ready)
    return found


def _bases(name: str) -> list[str]:
    """Names in the brackets of a class of the tables."""
    found = re.search(rf"^class {name}\((.*)\):", conversions().helpers[name], re.MULTILINE)
    return re.findall(r"\w+", found.group(1)) if found else []


def signature_of(name: str) -> Signature:
    """The signature of a callable of PyTorch, where PyTorch tells it or the table does."""
    return conversions().signatures.get(name) or torch_signature(name)


@cache
def executed(name: str) -> dict[str, tuple[object, ...]]:
    """Arguments that the catalogue executes a callable with, and their values there."""
    found: dict[str, tuple[object, ...]] = {}
    for entry in entries_of(name):
        for argument, value in _of_example(entry).items():
            found[argument] = (*found.get(argument, ()), value)
    return found


def _of_example(entry: Entry) -> dict[str, object]:
    last = entry.torch.rpartition(".")[2]
    for node in ast.walk(ast.parse(entry.example.reference, mode="eval")):
        if isinstance(node, ast.Call) and last in (getattr(node.func, "attr", None), getattr(node.func, "id", None)):
            bound = bind(torch_signature(entry.torch), node.args, node.keywords)
            found = {name: value_of(each) for name, each in {**bound.given, **bound.unknown}.items()}
            return {**found, "*": UNREADABLE} if bound.many else found
    return {}


def was_executed(name: str, argument: str, node: ast.expr, default: object) -> bool:
    """Whether the catalogue executes a callable with such an argument.

    Switches (truth values, words) must have been executed with this very value; of numbers and tensors one stands for all.
    """
    seen = {**executed(name), **executed(function_of(name) or name)}
    value = value_of(node)
    if value is not UNREADABLE and _same(value, default):
        return True
    if argument not in seen:
        return False
    if isinstance(value, str | bool) or (value is None and default is not None):
        return any(_same(value, each) for each in seen[argument])
    if value is UNREADABLE and isinstance(default, str):
        return False
    if value is UNREADABLE and isinstance(default, bool):
        return any(each is not UNREADABLE and not _same(each, default) for each in seen[argument])
    return True


def _same(first: object, second: object) -> bool:
    return type(first) is type(second) and first == second
