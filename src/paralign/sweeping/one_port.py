"""One port of a sweep, checked in a process of its own, within a time and a memory.

Or its last result, where nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign import __version__
from paralign.errors import CaptureFormatError, ParalignError, one_line, shortened
from paralign.model import ERROR, SCHEMA
from paralign.progress import kept
from paralign.report import told
from paralign.run.launching import Guard, launch
from paralign.run.process import environment
from paralign.run.project import read
from paralign.run.recorder import interpreter
from paralign.worker.process.files import fingerprint

if TYPE_CHECKING:
    import threading
    from typing import BinaryIO

    from paralign.sweeping.ports import Port

#: seconds between two looks at a port's processes
LOOK = 0.2

#: seconds that a check has to end its workers once it is told to
GRACE = 5.0

#: bytes of a gigabyte, as the table of ports counts them
GB = 1e9

#: the command, of this very package whatever lies in the current folder; the sides' own interpreters get no path of it
PROGRAM = (
    f"import sys; sys.path[:] = [{str(Path(__file__).parents[2])!r}, *filter(None, sys.path)]; "
    "from paralign.cli import main; sys.exit(main())"
)

#: characters of what a failed check said that are kept
SAID = 2000


@dataclass
class Outcome:
    """What one port came to.

    ``failure``: why there is no report, '' where there is one. ``reused``: an earlier sweep's, nothing having changed. ``files``: path ->
    fingerprint of all that it depended on. ``stages``: name -> verdict. ``peak_bytes`` is that of all processes together, as sampled.
    """

    name: str
    project: str
    verdict: str = ERROR
    headline: str = ""
    failure: str = ""
    stages: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    peak_bytes: float = 0.0
    reused: bool = False
    command: str = ""
    key: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As it is kept in the results."""
        return (json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n").encode()


def from_json(data: bytes) -> Outcome | None:
    """What :meth:`Outcome.to_json` wrote; None of what is damaged or of another version.

    The port is then checked again.
    """
    try:
        content = json.loads(data)
        if content.pop("schema") != SCHEMA:
            return None
        found = Outcome(**content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if _sound(content) and found.verdict in told.VERDICTS:
        return found
    return None


def _sound(content: dict[str, Any]) -> bool:
    """Whether every field has its type."""
    kinds: dict[str, Any] = {"stages": dict, "files": dict, "reused": bool, "seconds": (int, float), "peak_bytes": (int, float)}
    return all(isinstance(value, kinds.get(name, str)) for name, value in content.items())


def key_of(port: Port) -> str:
    """What a result is known by, beside the files that it depended on."""
    text = json.dumps([SCHEMA, __version__, str(port.project), port.stages, port.strict, _installed(port)])
    return hashlib.sha256(text.encode()).hexdigest()


def _installed(port: Port) -> list[dict[str, str]]:
    """What is installed for the interpreters of both sides.

    Nothing of a project that cannot be read: its check says why.
    """
    try:
        project = read(port.project)
    except ParalignError:
        return []
    return [interpreter(side.python, environment(side)).installed for side in (project.reference, project.candidate)]


def is_current(earlier: Outcome, port: Port) -> bool:
    """Whether an earlier result still holds.

    A port that failed is tried again, and so is one of which a file has changed.
    """
    if earlier.failure or earlier.verdict == ERROR or earlier.key != key_of(port) or not earlier.files:
        return False
    return all(fingerprint(path) == known for path, known in earlier.files.items())


def check(port: Port, folder: Path, stop: threading.Event) -> Outcome:
    """Check a port; whatever happens to it is its outcome.

    Args:
        port: the port.
        folder: its output folder.
        stop: set where the check is to be ended.
    """
    outcome = Outcome(port.name, str(port.project), key=key_of(port))
    words = ["check", str(port.project), *port.stages, "--out", str(folder), "--quiet", *(["--strict"] if port.strict else [])]
    outcome.command = " ".join(["paralign", *words])
    began, started = time.perf_counter(), time.time()
    said = folder / "sweep.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").unlink(missing_ok=True)
        own = _own_files(port)  # as they were when the check began
        with said.open("wb") as log:
            outcome.failure = _run(words, port, log, outcome, stop)
    except OSError as fault:
        outcome.failure = f"it cannot be run: {fault.strerror} ({fault.filename})"
    outcome.seconds = time.perf_counter() - began
    if not outcome.failure:
        _take(outcome, folder, port, said, started, own)
    return outcome


def _run(words: list[str], port: Port, log: BinaryIO, outcome: Outcome, stop: threading.Event) -> str:
    """Run the command; why it was ended, '' where it ended by itself."""
    process = launch(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    guard = Guard(process.pid)
    until = time.monotonic() + port.timeout
    try:
        while process.poll() is None:
            used = memory_of(process.pid)
            outcome.peak_bytes = max(outcome.peak_bytes, used)
            if used > port.memory * GB:
                return f"its processes took {used / GB:.1f} GB, {port.memory:g} GB are allowed (`memory` in the table of ports)"
            if stop.is_set():
                return "the sweep was interrupted"
            if time.monotonic() >= until:
                return f"it took longer than {port.timeout:g} s (`timeout` in the table of ports)"
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        return ""
    finally:
        _end(process)
        guard.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the check end its workers, then end it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _take(outcome: Outcome, folder: Path, port: Port, said: Path, started: float, own: dict[str, str]) -> None:
    """Read the report that a check has left; without one, what it said is the failure."""
    report = folder / "report.json"
    if not report.is_file() or report.stat().st_mtime < started - 1.0:  # a second: what some file systems keep of times
        text = " ".join(said.read_text(encoding="utf-8", errors="replace").split())
        outcome.failure = shortened(one_line(text) or "it left no report", SAID)
        return
    try:
        found = told.read(report, port.project if port.project.is_dir() else port.project.parent)
    except ParalignError as fault:
        outcome.failure = one_line(str(fault))
        return
    outcome.verdict, outcome.headline = found.verdict, found.headline
    outcome.stages = {stage.name: stage.verdict for stage in found.stages}
    outcome.files = _files(folder, list(outcome.stages), own)


def _own_files(port: Port) -> dict[str, str]:
    """The project file, with its fingerprint."""
    project = port.project / "paralign.toml" if port.project.is_dir() else port.project
    return {str(project): fingerprint(str(project)) or ""}


def _files(folder: Path, stages: list[str], own: dict[str, str]) -> dict[str, str]:
    """The project file, and every file that a stage depended on."""
    found = dict(own)
    for stage in stages:
        for training in (False, True) if stage == "data" else (False,):
            try:
                known = kept.read(folder, stage, training=training)
            except CaptureFormatError:
                return {}  # nothing tells whether the result still holds: the next sweep checks again
            found.update({} if known is None else known.files)
    return found


def memory_of(leader: int) -> float:
    """Resident bytes of a process and of all that it started.

    0 where the system does not tell (``/proc``).

    Pages that several of them share are counted for each.
    """
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names alone
    except OSError:
        return 0.0
    for number in numbers:
        found = _process(number)
        if found is not None:
            parents[number], pages[number] = found
    own, grew = {leader}, True
    while grew:
        more = {number for number, parent in parents.items() if parent in own} - own
        own |= more
        grew = bool(more)
    return float(sum(pages.get(number, 0) for number in own) * os.sysconf("SC_PAGE_SIZE"))


def _process(number: int) -> tuple[int, int] | None:
    """Parent and resident pages of a process; None where it has ended."""
    try:
        parent = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
        pages = Path(f"/proc/{number}/statm").read_text(encoding="utf-8").split()[1]
        return int(parent), int(pages)
    except (OSError, ValueError, IndexError):
        return None
