"""Paddle Inference: a program run, and its operators' times, which Paddle only prints."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
import traceback
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterator, List, Sequence

from paralign.adapters import _exported

#: a line of the table: the operator's name at its beginning (its thread before it where only one ran), calls, the total in milliseconds
_ROW = re.compile(r"^(?:thread\d+::)?(\w+\.\w+) +(\d+) +([\d.e+-]+) ", re.MULTILINE)

_TABLE, _UNIT = "Event Summary", "Time unit: ms"


def run(predictor: Any, inputs: Sequence[Any], file: str) -> List[Any]:
    """All outputs of a predictor, as host arrays.

    Raises:
        UsageError: the number of inputs differs.
    """
    for name, array in _exported.named(predictor.get_input_names(), inputs, file).items():
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.run()
    return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]


def measured(build: Callable[..., Any], inputs: Sequence[Any], file: str) -> List[_exported.OperatorTime]:
    """The first table that Paddle prints when a predictor with a profile ends.

    The first run, which prepares kernels, is part of the mean.

    Raises:
        UsageError: this version prints no table that can be read.
    """
    with _printed() as output:
        predictor = build(file, profile=True)
        try:
            for _ in range(_exported.RUNS):
                run(predictor, inputs, file)
        except BaseException as failure:  # an interrupt too: the predictor must end before the user's folder is left
            traceback.clear_frames(failure.__traceback__)  # they hold the predictor, which would end, and write, later
            raise
        finally:
            with _own_folder():
                del predictor
        text = output()
    table = text.partition(_TABLE)[2].partition(_TABLE)[0]
    rows = _ROW.findall(table) if _UNIT in text else []
    if not rows:
        raise _exported.no_times(file, "this version of Paddle Inference")
    found = [
        _exported.OperatorTime(name, float(total) / _exported.RUNS, max(1, int(calls) // _exported.RUNS)) for name, calls, total in rows
    ]
    return sorted(found, key=lambda each: -each.milliseconds)


@contextmanager
def _own_folder() -> Iterator[None]:
    """A temporary working folder, for the ``profile.log`` that a predictor's end writes.

    Paddle asks nobody where: it would overwrite a file of that name in the user's project.
    """
    before = os.open(os.curdir, os.O_RDONLY)
    try:
        with tempfile.TemporaryDirectory(prefix="paralign-profile-") as folder:
            os.chdir(folder)
            try:
                yield
            finally:
                os.fchdir(before)
    finally:
        os.close(before)


@contextmanager
def _printed() -> Iterator[Callable[[], str]]:
    """What C++ code of this process prints meanwhile, kept from where it would go."""
    library = ctypes.CDLL(None)

    def flush() -> None:
        sys.stdout.flush()
        library.fflush(None)

    def read(file: IO[bytes]) -> str:
        flush()
        file.seek(0)
        return file.read().decode("utf-8", "replace")

    flush()
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield lambda: read(file)
        finally:
            flush()
            os.dup2(before, 1)
            os.close(before)
