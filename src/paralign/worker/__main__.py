"""The worker process: reads the path of a job file a line from standard input, answers a line of JSON each.

It runs under any interpreter; paralign need not be installed there: the package is loaded from the folder that this file
lies in, and nothing else of that folder's surroundings gets onto the path. What a side prints goes to the log.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from typing import Any, Dict, TextIO


def _find_paralign() -> None:
    """Make ``import paralign`` give the package that this file is part of."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    spec = importlib.util.spec_from_file_location("paralign", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    if spec is None or spec.loader is None:
        raise ImportError(f"paralign is not in {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paralign"] = module
    spec.loader.exec_module(module)


def _claim_streams() -> "tuple[TextIO, TextIO]":
    """The pipes to the parent under private descriptors; the side's own prints go where errors go, its reads find nothing."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _failure(error: BaseException) -> Dict[str, Any]:
    from paralign.errors import ParalignError
    from paralign.worker.frames import user_frames

    ours = isinstance(error, ParalignError)
    return {
        "event": "failed",
        "type": type(error).__name__,
        "message": error.what if isinstance(error, ParalignError) else str(error),
        "where": getattr(error, "where", None) if ours else None,
        "hint": getattr(error, "hint", None) if ours else None,
        "ours": ours,
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "frames": user_frames(error),
    }


def main(path: str) -> None:
    """Serve jobs for the side described by the JSON file at ``path`` until standard input ends."""
    requests, answers = _claim_streams()

    def answer(message: Dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    from paralign.worker import files

    with open(path, encoding="utf-8") as file:
        side = json.load(file)
    files.install(side["ignore"])
    session = None
    for line in requests:
        try:
            if session is None:
                session = _session(side)
            from paralign.worker.tasks import perform

            with open(line.strip(), encoding="utf-8") as file:
                job = json.load(file)
            answer({"event": "done", "answer": perform(session, job)})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a side's code may raise anything, sys.exit() included; it crosses the border as data
            traceback.print_exc()
            answer(_failure(error))
        sys.stdout.flush()
        sys.stderr.flush()


def _session(side: Dict[str, Any]) -> Any:
    from paralign.worker.session import Session
    from paralign.worker.side import load

    functions = load(side["module"], side["root"])
    return Session(side["side"], functions, side["framework"] or None, side["device"], side["seed"], revision=side["revision"])


if __name__ == "__main__":
    _find_paralign()
    main(sys.argv[1])
