"""Callables that Paddle lacks, as requests.

What each is, where it is used, and a program that PyTorch has run.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from paralign.catalogue.lookup import look_up
from paralign.catalogue.naming import function_of, names, paddle_name
from paralign.catalogue.parameters import stored
from paralign.errors import EnvironmentUnavailable, UsageError, one_line, quoted
from paralign.port.scan.inventory import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.catalogue.entries import Words
    from paralign.port.scan.inventory import Inventory, Row

#: seconds for an interpreter to import PyTorch, and for each call beside: the search in ``specimen.py`` ends itself after 20
_IMPORT, _EACH = 300.0, 30.0

#: names that are suggested where several callables are meant
_NAMED = 5


@dataclass
class Request:
    """A callable of PyTorch that Paddle lacks.

    ``program`` is one that calls it, ``printed`` what that prints in PyTorch; both empty where no interpreter has PyTorch, or no small
    arguments were found. ``system`` is the interpreter and the machine that ran it.
    """

    name: str
    signature: str
    torch: str
    paddle: str
    uses: list[Row] = field(default_factory=list)
    instead: Words | None = None
    does: str = ""
    program: str = ""
    printed: str = ""
    system: str = ""


def of_inventory(inventory: Inventory, python: str | None = None, *, run_programs: bool = True) -> list[Request]:
    """A request for each callable used that Paddle lacks, the most used first.

    Args:
        inventory: the calls of the program.
        python: an interpreter with PyTorch that runs the programs; see :func:`run`.
        run_programs: whether programs are searched and run at all.

    Raises:
        EnvironmentUnavailable: the interpreter does not answer, or has no PyTorch.
    """
    found: dict[str, Request] = {}
    for row in inventory.rows:
        if row.status is Status.MISSING and not row.name.startswith("paddle"):
            name = function_of(row.name) or row.name
            found.setdefault(name, _request(name, inventory.paddle)).uses.append(row)
    requests = sorted(found.values(), key=lambda each: (-len(each.uses), each.name))
    if run_programs:
        run(requests, python)
    return requests


def of_name(text: str, python: str | None = None) -> Request:
    """The request for one callable, named as ``explain`` takes it.

    Raises:
        UsageError: no call has this name, several have, or Paddle has a counterpart.
        EnvironmentUnavailable: the interpreter does not answer, or has no PyTorch.
    """
    known = [name for name in look_up(text).names if name.partition(".")[0] != "paddle"]
    functions = list(dict.fromkeys(function_of(name) or name for name in known))
    if not functions:
        raise UsageError(f"no call of PyTorch has this name: {quoted(text)}", hint="name it in full, as in torch.nn.RMSNorm")
    ported = {name: paddle_name(name, stored("paddle")) for name in functions}
    missing = [name for name, port in ported.items() if not port]
    if not missing:
        name, port = next(iter(ported.items()))
        raise UsageError(
            f"Paddle {stored('paddle').version} has a counterpart of {name}: {port}", hint=f"`paralign explain {name}` says what differs"
        )
    if len(missing) > 1:
        raise UsageError(f"several calls have the name {quoted(text)}", hint=f"name one in full: {', '.join(missing[:_NAMED])}")
    request = _request(missing[0], stored("paddle").version)
    run([request], python)
    return request


def run(requests: Sequence[Request], python: str | None) -> None:
    """Let PyTorch find and run a program for each request.

    Args:
        requests: what is completed.
        python: an interpreter with PyTorch; None: this one where it has PyTorch, else nothing is run.

    Raises:
        EnvironmentUnavailable: the interpreter that is named does not answer, or has no PyTorch.
    """
    if not requests or (python is None and importlib.util.find_spec("torch") is None):
        return
    lines = _asked(requests, python or sys.executable)
    if python is not None and not any("version" in line for line in lines):
        said = next((line["failure"] for line in lines if "failure" in line), "it ended without an answer")
        raise EnvironmentUnavailable("this interpreter has no PyTorch that can be imported", where=python, hint=one_line(said)[:200])
    for request, line in zip(requests, lines, strict=False):  # an interpreter that crashed has answered fewer
        request.does, request.program = line.get("does", ""), line.get("program", "")
        request.printed, request.system = line.get("printed", ""), line.get("system", "")
        request.torch = line.get("version", request.torch) if request.name.startswith("torch.") else request.torch


def _asked(requests: Sequence[Request], python: str) -> list[dict[str, str]]:
    """What ``specimen.py`` of the worker answers, run in a folder that is removed afterwards.

    Whatever the calls write goes with it.
    """
    from paralign import worker

    script = Path(next(iter(worker.__path__))) / "interpreter" / "specimen.py"
    words = [word for each in requests for word in (each.name, _parameters(each.name))]
    limit = _IMPORT + _EACH * len(requests)
    with tempfile.TemporaryDirectory(prefix="paralign-") as folder:
        try:
            done = subprocess.run([python, "-I", str(script), *words], cwd=folder, capture_output=True, check=False, timeout=limit)  # noqa: S603 - the user's own interpreter
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentUnavailable("the interpreter does not answer", where=python, hint=one_line(str(error))[:200]) from error
    return [found for found in map(_line, done.stdout.decode("utf-8", errors="replace").splitlines()) if found is not None]


def _line(text: str) -> dict[str, str] | None:
    """One answer; None for a line that something else printed."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    is_answer = isinstance(found, dict) and ("version" in found or "failure" in found)
    if is_answer:
        return {str(key): str(value) for key, value in found.items()}
    return None


def _parameters(name: str) -> str:
    return stored(name.partition(".")[0]).texts.get(name, "...")


def _request(name: str, paddle: str) -> Request:
    shown = _parameters(name).partition(" ~ ")[0].replace("...", "…") or ""
    return Request(name, f"{name}({shown})", stored("torch").version, paddle, instead=names().missing.get(name))
