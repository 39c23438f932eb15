"""A worker that stands ready.

The framework is imported once, and each program is served by a child of its own.

A line on standard input is the path of a description of a side; a child is forked that serves it, on the same pipes, until an empty line.
Then this process answers with a line of JSON, ``{"ended": code}``. What a program does to its process ends with the child.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Callable, List, TextIO

#: the line that ends a child
END = "\n"

#: modules of ours that every child takes
OURS = (
    "paralign.worker.sides.session",
    "paralign.worker.sides.side",
    "paralign.worker.tasks",
    "paralign.worker.process.sealed",
    "paralign.worker.protocol.wire",
)


def serve(framework: str, modules: List[str], prepare: Callable[[], None], program: Callable[[str, TextIO, TextIO], None]) -> None:
    """Fork a child for each description, one after the other, until standard input ends.

    Args:
        framework: whose adapter is imported beforehand; '' for none.
        modules: names of installed packages that programs import; those that are no installed packages here are left out.
        prepare: what to do before anything else.
        program: serves a description's path on two pipes.
    """
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    prepare()
    _import(framework)
    for name in OURS:
        importlib.import_module(name)
    if modules:
        _seal()
    for name in modules:
        _import_installed(name)
    _know_libraries()
    while True:
        path = _line(requests).strip()
        if not path:
            return
        child = os.fork()
        if child == 0:
            program(path, os.fdopen(requests, "r", encoding="utf-8"), os.fdopen(answers, "w", encoding="utf-8"))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        _, code = os.waitpid(child, 0)
        os.write(answers, json.dumps({"ended": code}).encode() + b"\n")


def _seal() -> None:
    from paralign.worker.process.sealed import install

    install()


def _know_libraries() -> None:
    from paralign.worker.process.files import know_libraries

    know_libraries()


def _import(framework: str) -> None:
    """Import a framework; what is wrong with it the first child tells."""
    from paralign.adapters.finding import load
    from paralign.errors import ParalignError

    if framework:
        try:
            load(framework)
        except (ImportError, OSError, ParalignError):
            return


def _import_installed(name: str) -> None:
    """Import a module that is installed; what fails the child's own import tells."""
    from paralign.worker.process.files import is_installed

    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is not None and spec.origin is not None and is_installed(spec.origin):
            importlib.import_module(name)
    except (Exception, SystemExit):  # noqa: BLE001 - a package may raise what it likes, or ask to end
        return


def _line(descriptor: int) -> str:
    """A line, byte by byte: what follows it is the child's."""
    found = b""
    while not found.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            return ""
        found += byte
    return found.decode("utf-8")
