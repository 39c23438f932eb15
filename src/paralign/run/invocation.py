"""The user's own prediction program, run as its own command.

What it prints and the file that it writes become a capture.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear, load_foreign
from paralign.capture.bounds import Limit, open_regular
from paralign.dtypes import typed
from paralign.errors import CaptureFormatError, ParalignError, UnsupportedTensor, WorkerFailed, plain_text, quoted
from paralign.model import Manifest
from paralign.run.command_line import OUT, PATH, PYTHON, filled, places, split
from paralign.run.launching import Guard, await_group, kill_group, launch
from paralign.run.printed import Lines, parse, weights_in
from paralign.run.process import environment
from paralign.worker.values.trees import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.run.project import SideSettings

#: bytes of standard output, and of a .json file, that are read: a thousand detections take 100 kB
OUTPUT = Limit("PARALIGN_MAX_OUTPUT", 1 << 24, "bytes")

#: lines of standard error that a failure quotes
TAIL = 12

#: interpreters by name: the side's own is meant
_PYTHONS = ("python", "python3", PYTHON)

#: endings of files that are read; a file without one is known by how it begins
_ENDINGS = ("", ".npy", ".npz", ".json")


@dataclass(frozen=True)
class Program:
    """A side's program.

    Args:
        side: ``reference`` or ``candidate``.
        command: as the user wrote it, with ``{path}`` and perhaps ``{out}`` and ``{python}``.
        settings: of the side, whose interpreter, root and environment it runs in.
        timeout: seconds that one run may take.
        lines: a regular expression; printed lines without it are no results.
    """

    side: str
    command: str
    settings: SideSettings
    timeout: float
    lines: str = ""

    def tokens(self, path: str, out: str) -> list[str]:
        """The command's arguments, which no shell sees.

        A path may therefore hold blanks, quotes and semicolons.
        """
        words = split(self.command, self.side)
        if words[0] in _PYTHONS:
            words[0] = PYTHON
        values = {PATH: path, OUT: out, PYTHON: self.settings.python}
        return [filled(word, values) for word in words]

    @property
    def weights(self) -> list[str]:
        """The files of weights that the side is known to read.

        Those in its command, and its checkpoint.
        """
        checkpoint = self.settings.checkpoint
        return weights_in(split(self.command, self.side)) + ([] if checkpoint is None else [str(checkpoint)])


def is_python(word: str, settings: SideSettings) -> bool:
    """Whether a command's first word is the side's own interpreter."""
    return word in _PYTHONS or word == settings.python


@dataclass(frozen=True)
class Run:
    """What one run of a program gave: its lines, and the value in its file.

    None without a file.
    """

    lines: Lines
    written: Any
    seconds: float


def record(program: Program, paths: list[str], folder: Path) -> tuple[Capture, list[Run], Run]:
    """Run a program for every path, the first path twice, and keep what it gave.

    Returns:
        The capture, with ``command_N`` (N counts the paths; leaves of the file that was written, and printed lines ``line_M``), the
        runs, and the second run of the first path, from which follows what changes without a reason.

    Raises:
        WorkerFailed: it does not start, ends with an error, runs out of time or writes what cannot be read.
    """
    clear(folder)
    runs = [_run(program, path) for path in paths]
    again = _run(program, paths[0])
    manifest = Manifest(side=program.side, stage="infer", command=split(program.command, program.side))
    with CaptureWriter(folder, manifest) as writer:
        for number, (path, run) in enumerate(zip(paths, runs, strict=True)):
            _write(writer, f"command_{number}", path, run)
        writer.manifest.settings["answer"] = {"runs": len(runs) + 1}
        writer.manifest.resources = {"seconds": sum(run.seconds for run in [*runs, again])}
    return Capture.open(folder), runs, again


def _write(writer: CaptureWriter, name: str, path: str, run: Run) -> None:
    for leaf, value in leaves(run.written, lambda v: isinstance(v, (np.ndarray, np.generic))):
        _write_value(writer, name, leaf, value, path)
    for line in run.lines.kept:
        key = f"line_{line.number}"
        writer.add(name, line.text, role="output", leaf=key, attrs={"path": path})
        for number, known in enumerate(line.numbers):
            writer.add(name, np.float64(known.value), role="output", leaf=f"{key}.{number}", attrs={"path": path, "unit": known.unit})


def _write_value(writer: CaptureWriter, name: str, leaf: str, value: Any, path: str) -> None:
    """One value of the file; what cannot be recorded is named in the notes."""
    try:
        writer.add(name, value if isinstance(value, str) else typed(value), role="output", leaf=leaf, attrs={"path": path})
    except UnsupportedTensor as fault:
        writer.note(f"{name}.{leaf}: {fault.what}")


def _run(program: Program, path: str) -> Run:
    if not Path(path).exists():
        raise WorkerFailed("UsageError", f"a path to predict from is not there: {path}", side=program.side)
    with tempfile.TemporaryDirectory(prefix="paralign-program-") as folder:
        out = str(Path(folder) / "out")
        tokens = program.tokens(str(Path(path).absolute()), out)
        seconds = _finished(program, tokens, Path(folder))
        printed = _limited(Path(folder) / "stdout", program).decode("utf-8", "replace").replace(out, OUT)
        written = _read(program, Path(out))
    return Run(parse(printed, program.lines, program.weights), written, seconds)


def _finished(program: Program, tokens: list[str], folder: Path) -> float:
    """Run a command to its end in the side's root; seconds that it took."""
    began = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
        try:
            process = launch(
                tokens,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                cwd=program.settings.root,
                env=environment(program.settings),
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            raise _failed(program, type(fault).__name__, f"`{tokens[0]}` does not start: {fault}") from fault
        guard = Guard(process.pid)
        try:
            code = process.wait(program.timeout)
        except subprocess.TimeoutExpired:
            raise _failed(program, "timeout", f"{_said(tokens)} took longer than {program.timeout:g} s{_tail(folder)}") from None
        finally:
            kill_group(process.pid)
            process.wait()
            await_group(process.pid)
            guard.close()
    if code:
        what = f"was ended by signal {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        raise _failed(program, "exited", f"{_said(tokens)} {what}{_tail(folder)}")
    return time.monotonic() - began


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return str(number)


def _said(tokens: list[str]) -> str:
    return quoted(shlex.join(tokens))


def _tail(folder: Path) -> str:
    """The last lines of standard error; of standard output where that is empty."""
    for name in ("stderr", "stdout"):
        with (folder / name).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16)))
            lines = file.read().decode("utf-8", "replace").splitlines()
        if lines:
            return f"; last lines of its {name}:\n" + "\n".join(f"    {plain_text(line)}" for line in lines[-TAIL:])
    return "; it printed nothing"


def _failed(program: Program, kind: str, message: str) -> WorkerFailed:
    return WorkerFailed(kind, f"the program of [infer] {program.side}_command: {message}", side=program.side)


def _limited(path: Path, program: Program) -> bytes:
    """A file's content, up to the limit.

    Raises:
        WorkerFailed: it is larger.
    """
    with open_regular(path) as handle:
        data = handle.read(OUTPUT.value + 1)
    if len(data) > OUTPUT.value:
        raise _failed(program, "TooLarge", f"it wrote more than {OUTPUT.value} bytes; {OUTPUT.variable} allows more")
    return data


def _read(program: Program, out: Path) -> Any:
    """The value in the file that the program wrote to ``{out}``, whatever its ending.

    None where the command has no such word.
    """
    if not any(OUT in places(word) for word in split(program.command, program.side)):
        return None
    found = [path for path in _candidates(program, out) if path.is_file()]
    if len(found) != 1:
        what = "wrote no file" if not found else "wrote several files: " + ", ".join(path.name for path in found)
        raise _failed(program, "UsageError", f"it {what} to {OUT}; write one of: .npy, .npz, .json")
    try:
        with found[0].open("rb") as file:
            start = file.read(6)
        return load_foreign(found[0]) if start.startswith((b"\x93NUMPY", b"PK")) else _json(_limited(found[0], program), found[0].name)
    except ParalignError as fault:
        raise _failed(program, type(fault).__name__, f"the file that it wrote cannot be read: {fault.what}") from fault


def _candidates(program: Program, out: Path) -> Iterator[Path]:
    """Where ``{out}`` may lie: with the endings of the command, or of the program."""
    named = [word.partition(OUT)[2] for word in split(program.command, program.side) if OUT in places(word)]
    for ending in dict.fromkeys([*named, *_ENDINGS]):
        if os.sep not in ending:
            yield out.with_name(out.name + ending)


def _json(data: bytes, name: str) -> Any:
    """Numbers, texts, lists and dicts; lists of numbers become arrays.

    Raises:
        CaptureFormatError: it is no JSON.
    """
    try:
        return _arrays(json.loads(data.decode("utf-8")))
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"it is neither .npy nor .npz nor JSON: {fault}", where=name) from fault


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _arrays(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind in "bif" and array.size:
        return array
    return [_arrays(item) for item in value]
