"""Entries by the name of a call, in full or as people write it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import cache

from paralign.catalogue.entries import Entry, read_all
from paralign.catalogue.naming import canonical, function_of
from paralign.catalogue.parameters import STORED, stored

#: how modules are usually imported: what a reader types before a name
_SHORT = {
    "F": ("torch.nn.functional", "paddle.nn.functional"),
    "nn": ("torch.nn", "paddle.nn"),
    "optim": ("torch.optim", "paddle.optimizer"),
    "optimizer": ("paddle.optimizer",),
    "lr_scheduler": ("torch.optim.lr_scheduler", "paddle.optimizer.lr"),
    "lr": ("paddle.optimizer.lr",),
    "init": ("torch.nn.init", "paddle.nn.initializer"),
    "transforms": ("torchvision.transforms", "paddle.vision.transforms"),
    "Tensor": ("torch.Tensor", "paddle.Tensor"),
}

#: names that are suggested for one that is not known
_SUGGESTED = 5


@dataclass
class Found:
    """What is known of a name: its full names, their entries, or names that are like it."""

    names: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    suggestions: list[str] = field(default_factory=list)


@cache
def _by_torch() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in read_all():
        for name in (entry.torch, *entry.also):
            found.setdefault(name, []).append(entry)
    return found


@cache
def _by_paddle() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in read_all():
        found.setdefault(entry.paddle, []).append(entry)
    return found


def entries_of(name: str) -> list[Entry]:
    """Entries of a callable of PyTorch, by its public name.

    A method of tensors has those of the function.
    """
    own = _by_torch().get(name, [])
    function = function_of(name)
    return own if function is None else own + _by_torch().get(function, [])


@cache
def arguments_of(name: str) -> dict[str, str]:
    """Arguments of a callable of PyTorch as its own entries map them.

    Each name with what Paddle's calls it.
    """
    found: dict[str, str] = {}
    for entry in entries_of(name):
        if name == entry.torch or name in entry.also:
            found.update(entry.arguments)
    return found


def entries_of_paddle(name: str) -> list[Entry]:
    """Entries whose port is a callable of Paddle."""
    return _by_paddle().get(name, []) if name else []


def entry_of(identity: str) -> Entry | None:
    """The entry of an id; None where there is none."""
    for entry in read_all():
        if entry.id == identity:
            return entry
    return None


def look_up(text: str) -> Found:
    """Find a callable, or an entry by its id.

    A full name, one with a usual alias (``F.pad``), or the last part alone.
    """
    by_id = [entry for entry in read_all() if entry.id == text]
    if by_id:
        return Found([by_id[0].torch], by_id)
    known = _known()
    head, _, last = text.rpartition(".")
    wanted = [text, *(f"{home}.{last}" for home in _SHORT.get(head, ()))]
    exact = [canonical(name) for name in wanted if name in known or canonical(name) in known]
    if not exact and not head:
        exact = _ending(text, known)
    if not exact:
        exact = _ending(text.casefold(), known, folded=True)
    if not exact:
        return Found(suggestions=_like(text, known))
    found = Found(exact)
    for name in exact:
        for entry in entries_of(name) + entries_of_paddle(name):
            if entry not in found.entries:
                found.entries.append(entry)
    return found


@cache
def _known() -> dict[str, None]:
    """Every name, those with entries first."""
    known = dict.fromkeys(_by_torch())
    for package in STORED:
        known.update(dict.fromkeys(stored(package).texts))
    known.update(dict.fromkeys(name for name in _by_paddle() if name))
    return known


def _ending(text: str, known: dict[str, None], *, folded: bool = False) -> list[str]:
    """Names that end in a text; those of PyTorch with entries where there are any."""
    found = [name for name in known if (name.casefold() if folded else name).endswith("." + text)]
    described = [name for name in found if name in _by_torch() or name in _by_paddle()]
    return described or found


def _like(text: str, known: dict[str, None]) -> list[str]:
    last = text.rpartition(".")[2].casefold()
    by_last: dict[str, str] = {}
    for name in known:
        by_last.setdefault(name.rpartition(".")[2].casefold(), name)
    return [by_last[each] for each in difflib.get_close_matches(last, by_last, _SUGGESTED, 0.6)]
