"""The table of ports of a sweep, read and checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import checked_path, near
from paralign.errors import UsageError, did_you_mean, quoted
from paralign.run.project import FILE, check_stages
from paralign.run.toml import read_toml

if TYPE_CHECKING:
    from pathlib import Path

_TOP = {"out": str, "jobs": int, "timeout": (int, float), "memory": (int, float), "stages": list, "strict": bool, "port": list}
_PORT = {"name": str, "project": str, "stages": list, "timeout": (int, float), "memory": (int, float), "strict": bool}

#: what a port may be called: its name is that of a folder, here or on a store
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

#: ports of one sweep: each has a process that looks after it, and a line in the report
MOST = 10_000

#: gigabytes that a port may take where the table says nothing: two frameworks and a model of some hundred MB
USUAL = 4.0


@dataclass(frozen=True)
class Port:
    """One port of the table.

    Args:
        name: its folder in the results.
        project: its project file.
        stages: that are checked; empty for those of its project file.
        timeout: seconds that its check may take.
        memory: gigabytes that all its processes together may take.
        strict: as ``paralign check --strict``.
    """

    name: str
    project: Path
    stages: tuple[str, ...] = ()
    timeout: float = 3600.0
    memory: float = USUAL
    strict: bool = False


@dataclass(frozen=True)
class Sweep:
    """A table of ports: where results go, and how many are checked at a time.

    Within how many gigabytes (None: as they need).
    """

    path: Path
    out: str
    jobs: int = 1
    memory: float | None = None
    ports: tuple[Port, ...] = field(default_factory=tuple)


def read(path: Path) -> Sweep:
    """The table in a file.

    Raises:
        UsageError: it is not there or no TOML; an unknown key, a value of the wrong type or out of range; two ports of one name; no port.
    """
    if not checked_path(path).is_file():
        raise UsageError(
            f"there is no table of ports{near(path)}", where=str(path), hint="name a TOML file with a [[port]] for each project"
        )
    table = read_toml(path, f"{path.name} is no valid TOML")
    _check(table, _TOP, str(path))
    entries = table.get("port", [])
    if not entries:
        raise UsageError("the table has no port", where=str(path), hint='add [[port]] with project = "FOLDER"')
    if len(entries) > MOST:
        raise UsageError(f"the table has {len(entries)} ports, {MOST} are allowed", where=str(path), hint="sweep it in parts")
    ports = tuple(_port(entry, number, table, path) for number, entry in enumerate(entries, 1))
    names = [port.name for port in ports]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two ports are called {quoted(twice)}", where=str(path), hint="give each [[port]] a `name` of its own")
    memory = table.get("memory")
    small = next((port for port in ports if memory is not None and port.memory > memory), None)
    if small is not None:
        told = f"the port {quoted(small.name)} may take {small.memory:g} GB, the sweep {memory:g} GB"
        raise UsageError(told, where=str(path), hint="raise `memory` at the top, or lower the port's")
    out = str(table.get("out", "sweep"))
    return Sweep(path.resolve(), out if "://" in out else str(path.resolve().parent / out), int(table.get("jobs", 1)), memory, ports)


def _port(entry: Any, number: int, table: dict[str, Any], path: Path) -> Port:
    where = f"{path}: [[port]] {number}"
    if not isinstance(entry, dict):
        raise UsageError("a port must be a table", where=where, hint='write [[port]] and project = "FOLDER"')
    _check(entry, _PORT, where)
    if "project" not in entry:
        raise UsageError("the port has no project", where=where, hint=f'add project = "FOLDER", the folder of its {FILE}')
    project = (path.resolve().parent / entry["project"]).resolve()
    name = entry.get("name", project.stem if project.suffix == ".toml" else project.name)
    if not _NAME.fullmatch(name):
        told = f"a port cannot be called {quoted(name)}"
        raise UsageError(told, where=where, hint="give it a `name` of letters, digits, dots, dashes and underscores")
    stages = check_stages(entry.get("stages", table.get("stages", [])))
    given = {key: entry.get(key, table.get(key) if key != "memory" else None) for key in ("timeout", "memory", "strict")}
    usual = {"timeout": Port.timeout, "memory": min(USUAL, table.get("memory", USUAL)), "strict": False}
    limits = {key: usual[key] if value is None else value for key, value in given.items()}
    return Port(name, project, tuple(stages), float(limits["timeout"]), float(limits["memory"]), bool(limits["strict"]))


def _check(table: dict[str, Any], known: dict[str, Any], where: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"unknown key {quoted(key)}{did_you_mean(key, known)}", where=where, hint="known: " + ", ".join(sorted(known)))
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            wanted = known[key] if isinstance(known[key], tuple) else (known[key],)
            raise UsageError(f"{key!r} must be of type {' or '.join(t.__name__ for t in wanted)}, not {type(value).__name__}", where=where)
    for key in ("jobs", "timeout", "memory"):
        if key in table and not 0 < table[key] < math.inf:
            raise UsageError(f"{key!r} must be above 0, not {table[key]}", where=where)
    if not all(isinstance(stage, str) for stage in table.get("stages", [])):
        raise UsageError("'stages' must be a list of texts", where=where)
