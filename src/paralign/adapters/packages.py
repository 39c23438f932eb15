"""Packages that bring adapters.

They are found by entry points, and handed to workers whose interpreters lack them.

A worker's interpreter may have neither paralign nor the package installed. So paralign's own process tells its workers, in an environment
variable, which file each package begins with; a worker imports it from there and puts no folder on its path.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Optional

from paralign.errors import UsageError, quoted

#: the group of entry points that installed packages add adapters to
GROUP = "paralign.adapters"

#: JSON: framework -> [file that the package begins with, ``module:function``, whether the package came with paralign]
VARIABLE = "PARALIGN_ADAPTERS"

#: the file that a package begins with, where it is no single module
_FIRST = "__init__.py"

#: the distribution whose packages belong to this version of paralign, and to no other
_DISTRIBUTION = "paralign"

#: what was in the variable when this process began; '' where paralign did not start it
_told = ""


@dataclass(frozen=True)
class Place:
    """Where an adapter is.

    Args:
        value: ``module`` or ``module:function``.
        file: that its package begins with; '' where it is imported as this interpreter imports.
        ours: the package came with paralign.
    """

    value: str
    file: str = ""
    ours: bool = False

    @property
    def package(self) -> str:
        """The name of the package, or of the one module."""
        return self.value.partition(":")[0].partition(".")[0]

    def load(self) -> Any:
        """The module of the adapter.

        Raises:
            ImportError: it, or what it imports, is not there.
        """
        if self.file and self.package not in sys.modules:
            _load_file(self.package, self.file)
        return import_module(self.value.partition(":")[0])


def _load_file(name: str, file: str) -> None:
    path = Path(file)
    inside = [str(path.parent)] if path.name == _FIRST else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"{name} is not in {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def take_over() -> None:
    """Keep what this worker was told.

    The variable goes: what the side starts is no worker.
    """
    global _told  # noqa: PLW0603 - a process is told once
    _told = os.environ.pop(VARIABLE, "")
    places.cache_clear()


@lru_cache(maxsize=1)
def places() -> Dict[str, Place]:
    """Framework -> where the adapter of an installed package is.

    Of a worker's, the interpreter's own packages come before those handed over, but for those that came with paralign: these belong to
    the version that runs.

    Raises:
        UsageError: the variable holds something else.
    """
    handed, own = _handed(_told), _installed()
    return {**handed, **own, **{name: place for name, place in handed.items() if place.ours}}


def told_to_workers() -> str:
    """What the variable of a worker has to hold.

    A package that brings the framework itself is left out: the side has its own version of that. So is one that lies in no file.
    """
    return json.dumps(_told_files())


def _told_files() -> Dict[str, List[Any]]:
    """Framework -> the entry of the variable."""
    found: Dict[str, List[Any]] = {}
    for name, place in places().items():
        file = place.file or ("" if place.package == name else _first_file(place.package))
        if file:
            found[name] = [file, place.value, place.ours]
    return found


def homes() -> List[str]:
    """The folders of packages that were handed over: their code is none of the user's.

    What is installed is not asked for: that would list the folders of the user's path.
    """
    return [str(path.parent) for path in (Path(place.file) for place in _handed(_told).values()) if path.name == _FIRST]


def sources() -> List[Path]:
    """The files of the packages that workers are told of, as captures depend on them."""
    firsts = [Path(file) for _, (file, _, _) in sorted(_told_files().items())]
    found = [sorted(first.parent.rglob("*.py")) if first.name == _FIRST else [first] for first in firsts]
    return [path for paths in found for path in paths]


def roots() -> Dict[str, Path]:
    """Package that workers are told of -> its folder, or its file where it is one module."""
    firsts = {value.partition(":")[0].partition(".")[0]: Path(file) for file, value, _ in _told_files().values()}
    return {name: first.parent if first.name == _FIRST else first for name, first in sorted(firsts.items())}


def _installed() -> Dict[str, Place]:
    from importlib.metadata import entry_points

    every: Any = entry_points()
    found = every.select(group=GROUP) if hasattr(every, "select") else every.get(GROUP, [])  # a dict before Python 3.10
    known = [(each.name, Place(each.value, ours=_is_ours(each))) for each in found]
    return dict(sorted(known, key=lambda each: each[1].ours))  # ours last: nothing else takes their place


def _is_ours(entry: Any) -> bool:
    distribution = getattr(entry, "dist", None)  # since Python 3.10, which paralign's own process has
    return distribution is not None and str(distribution.metadata["Name"]).lower() == _DISTRIBUTION


def _first_file(package: str) -> str:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # half an installation
        return ""
    file = "" if spec is None or not spec.has_location else spec.origin or ""
    return str(Path(file).absolute()) if file and Path(file).is_file() else ""  # a namespace has none, an archive's is no file


@lru_cache(maxsize=1)  # read before any code of the user's could replace what reads it
def _handed(text: str) -> Dict[str, Place]:
    if not text:
        return {}
    try:
        table = json.loads(text)
    except ValueError:
        table = None
    places_ = {name: _place(entry) for name, entry in table.items()} if isinstance(table, dict) else {"": None}
    found = {name: place for name, place in places_.items() if place is not None}
    if len(found) < len(places_):
        raise UsageError(f"{VARIABLE} holds no adapters: {quoted(text)}", hint="leave it unset: paralign sets it for its workers")
    return found


def _place(entry: Any) -> Optional[Place]:
    """An entry of the variable; None for what is none."""
    if not (isinstance(entry, list) and [type(each) for each in entry] == [str, str, bool]):
        return None
    place = Place(entry[1], entry[0], ours=entry[2])
    home, _, function = place.value.partition(":")
    names = [*home.split("."), *([function] if function else [])]
    file = Path(place.file)
    begins = file.parts[-2:] == (place.package, _FIRST) or file.name == place.package + ".py"
    return place if file.is_absolute() and begins and all(name.isidentifier() for name in names) else None
