"""One interpreter, examined from outside.

Started, waited for no longer than allowed, its answer read without trusting it.

What answers is a program in somebody else's environment: it may not be Python, hang, crash, or write anything.
"""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.errors import one_line, shortened
from paralign.run.launching import Guard, await_group, kill_group, launch
from paralign.run.process import MAIN, QUOTED, environment

if TYPE_CHECKING:
    from paralign.run.project import SideSettings

#: the least Python, major and minor, that the worker runs under
LEAST_PYTHON = (3, 8)

#: bytes of the longest answer that is read; a real one has 4 kB
MOST = 1 << 20

#: lines of the log that a failure quotes
TAIL = 4

#: written before the version: what a side's ``sitecustomize`` prints is no answer
_MARK = "paralign asks:"
_ASK = f"import sys; sys.stdout.write('\\n{_MARK} %d.%d.%d\\n' % tuple(sys.version_info[:3]))"


class Trouble(Enum):
    """Why an interpreter could not be examined to the end."""

    NOT_STARTED = "it does not start"
    NOT_PYTHON = "it is no Python interpreter"
    TIMEOUT = "it took too long"
    DIED = "it died"
    FOREIGN = "its answer cannot be read"


@dataclass
class Check:
    """A small computation: its greatest relative error, or why it failed.

    The error is relative to the greatest value.
    """

    name: str
    error: float = math.nan
    failure: str = ""


@dataclass
class Framework:
    """A framework as the interpreter says it is; ``failure`` says why it cannot be used."""

    name: str
    failure: str = ""
    hint: str = ""
    build: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    devices: list[str] = field(default_factory=list)
    collectives: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)


@dataclass
class Examination:
    """What is known of one side's interpreter."""

    side: str
    interpreter: str
    device: str
    framework: str = ""
    every: bool = False
    trouble: Trouble | None = None
    detail: str = ""
    step: str = ""
    python: str = ""
    driver: str = ""
    numpy: str = ""
    numpy_failure: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    frameworks: list[Framework] = field(default_factory=list)
    images: dict[str, dict[str, str]] = field(default_factory=dict)


class _Foreign(ValueError):
    """A value that the probe does not write."""


def examine(side: str, settings: SideSettings, cwd: Path, limit: float, *, every: bool = False) -> Examination:
    """Examine a side's interpreter; what goes wrong is part of the result.

    Args:
        side: ``reference``, ``candidate`` or ``here``.
        settings: its interpreter, framework ("" for every one that is installed), device and environment.
        cwd: the working directory, as in a check.
        limit: seconds that it may take.
        every: whether each framework that is installed has to work.
    """
    found = Examination(side, settings.python, settings.device, settings.framework, every)
    with tempfile.TemporaryDirectory(prefix="paralign-doctor-") as folder:
        _examine(found, settings, cwd, Path(folder), time.monotonic() + limit)
    if found.trouble is Trouble.TIMEOUT:
        found.detail = f"more than {limit:g} s"
    return found


def _examine(found: Examination, settings: SideSettings, cwd: Path, folder: Path, until: float) -> None:
    """Ask for the version first: an interpreter that is too old cannot even read the probe."""
    code = _run(["-c", _ASK], settings, cwd, folder / "version", until, found)
    if code is not None:
        _read_version(found, _start_of(folder / "version"), code)
    if version(found.python) < LEAST_PYTHON:
        return
    request, answer, log = folder / "request.json", folder / "answer", folder / "log"
    wanted = {"framework": settings.framework, "device": settings.device, "root": str(settings.root)}
    request.write_text(json.dumps(wanted), encoding="utf-8")
    code = _run(["-u", str(MAIN), "--diagnose", str(request), str(answer)], settings, cwd, log, until, found)
    ended = read_answer(found, _start_of(answer))
    if code is not None and not ended and found.trouble is None:
        found.trouble, found.detail = Trouble.DIED, f"{_end_of_process(code)}; last lines of its output: {_tail(log)}"


def _run(arguments: list[str], settings: SideSettings, cwd: Path, output: Path, until: float, found: Examination) -> int | None:
    """Run the side's interpreter, and end all that it has started; gives its exit code.

    Its output goes into a file; None where it has no code.
    """
    try:
        with output.open("wb") as file:
            process = launch(
                [settings.python, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment(settings),
                start_new_session=True,
            )
    except OSError as error:
        found.trouble, found.detail = Trouble.NOT_STARTED, str(error.strerror or error)
        return None
    guard = Guard(process.pid)
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        found.trouble = Trouble.TIMEOUT
        return None
    finally:
        kill_group(process.pid)
        process.wait()
        await_group(process.pid)
        guard.close()


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST + 1)
    except OSError:  # it was never written
        return b""


def _read_version(found: Examination, output: bytes, code: int) -> None:
    answer = re.search(re.escape(_MARK) + r" (\d{1,3}\.\d{1,3}\.\d{1,3})", output.decode("utf-8", errors="replace"))
    if answer:
        found.python = answer.group(1)
    else:
        quoted = one_line(shortened(output.decode("utf-8", errors="backslashreplace").strip(), QUOTED)) or "nothing"
        found.trouble, found.detail = Trouble.NOT_PYTHON, f"asked for its version it wrote {quoted}; {_end_of_process(code)}"


def version(text: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) where there are none.

    >>> version("2.13.0+cpu"), version("unknown")
    ((2, 13), (0, 0))
    """
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})", text)
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else (0, 0)


def _end_of_process(code: int) -> str:
    if code >= 0:
        return f"it ended with code {code}"
    try:
        return f"it was ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


def _tail(log: Path) -> str:
    text = _start_of(log).decode("utf-8", errors="backslashreplace")
    lines = [one_line(shortened(line)) for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-TAIL:]) or "none"


def read_answer(found: Examination, data: bytes) -> bool:
    """Take over what a probe has written; whether it came to its end.

    A last line without its end was cut off by a crash and is left out. Anything else that a probe does not write sets ``trouble``.
    """
    if len(data) > MOST:
        found.trouble, found.detail = Trouble.FOREIGN, f"it is longer than {MOST} bytes"
        return False
    ended = False
    for line in data.split(b"\n")[:-1]:
        ended = _read_line(found, line)
        if found.trouble is Trouble.FOREIGN:
            return False
    return ended


def _read_line(found: Examination, line: bytes) -> bool:
    """Take over one line; whether it is the last."""
    try:
        return _take(found, json.loads(line.decode("utf-8")))
    except (ValueError, RecursionError):
        quoted = one_line(line[:QUOTED].decode("utf-8", errors="backslashreplace"))
        found.trouble, found.detail = Trouble.FOREIGN, f"no line of ours: {quoted}"
        return False


def _take(found: Examination, entry: Any) -> bool:
    """Take over what one line says; whether it is the last.

    Raises:
        ValueError: it is nothing that the probe writes.
    """
    if not isinstance(entry, list) or len(entry) != 2:  # noqa: PLR2004 - a key and a value
        raise _Foreign
    key, value = entry
    if key == "end":
        return True
    if key in ("python", "driver", "step"):
        setattr(found, key, _text(value))
    elif key == "environment":
        found.environment = _texts(value)
    elif key == "numpy":
        about = _texts(value)
        found.numpy, found.numpy_failure = about.get("version", ""), about.get("failure", "")
    elif key == "framework":
        found.frameworks.append(_framework(value))
    elif key == "check" and found.frameworks:
        found.frameworks[-1].checks.append(_check(value))
    elif key == "images" and isinstance(value, dict):
        found.images.update({_text(name): _texts(about) for name, about in value.items()})
    else:
        raise _Foreign
    return False


def _framework(value: Any) -> Framework:
    if not isinstance(value, dict) or "name" not in value:
        raise _Foreign
    devices = value.get("devices", [])
    if not isinstance(devices, list):
        raise _Foreign
    plain = {key: _text(value.get(key, "")) for key in ("name", "failure", "hint", "build", "commit")}
    tables = {key: _texts(value.get(key, {})) for key in ("versions", "collectives", "settings", "flags")}
    return Framework(**plain, **tables, devices=[_text(each) for each in devices])  # type: ignore[arg-type]


def _check(value: Any) -> Check:
    if not isinstance(value, dict):
        raise _Foreign
    error = value.get("error", math.nan)
    if isinstance(error, bool) or not isinstance(error, int | float):
        raise _Foreign
    with suppress(OverflowError):
        return Check(_text(value.get("name")), float(error), _text(value.get("failure", "")))
    raise _Foreign


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise _Foreign
    return one_line(shortened(str(value)))


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Foreign
    return {_text(key): _text(each) for key, each in value.items()}
