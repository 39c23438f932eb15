"""What running an exported program has in common among frameworks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Dict, NamedTuple, NoReturn, Sequence

import numpy as np

from paralign.errors import UsageError

#: runs of a program whose operators are timed, after a first one that is not counted where the engine tells runs apart
RUNS = 10


class OperatorTime(NamedTuple):
    """How many milliseconds an operator takes in one run of a program.

    ``calls`` counts those of one run.
    """

    name: str
    milliseconds: float
    calls: int


def no_times(path: str, engine: str) -> UsageError:
    """The error for a program whose engine says nothing of its operators."""
    return UsageError(
        f"{engine} gives no times of operators", where=path, hint="export to .onnx, or, from Paddle, to Paddle Inference, to see them"
    )


def find(path: str, suffixes: Sequence[str]) -> str:
    """The file meant by ``path``: itself, or with the first suffix that exists.

    Raises:
        UsageError: there is none.
    """
    for candidate in [path, *(path + suffix for suffix in suffixes)]:
        if Path(candidate).is_file():
            return candidate
    raise UsageError(
        "there is no exported program here",
        where=path,
        hint=f"give the path that export wrote to: a file, or a prefix that is followed by {', '.join(suffixes)}",
    )


def refuse(path: str, suffixes: Sequence[str]) -> NoReturn:
    """Raise the UsageError for a file that is no program of a known kind."""
    raise UsageError(
        "the kind of this exported program is not known from its name",
        where=path,
        hint="name the file as its format does: " + ", ".join(suffixes),
    )


def broken(path: str, kind: str, error: Exception) -> UsageError:
    """The error for a program that its own framework cannot load."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UsageError(f"this file cannot be loaded as {kind}: {first}", where=path, hint="export it again")


def named(names: Sequence[str], inputs: Sequence[Any], path: str) -> Dict[str, Any]:
    """Input arrays, contiguous, by the names that a program gives its inputs, in order.

    Raises:
        UsageError: their number differs.
    """
    if len(names) != len(inputs):
        raise UsageError(
            f"the exported program takes {len(names)} inputs ({', '.join(names)}) and was given {len(inputs)}",
            where=path,
            hint="give as many inputs as it was exported with, in the same order",
        )
    return {name: np.array(array, order="C") for name, array in zip(names, inputs)}


def single(outputs: Sequence[Any]) -> Any:
    """One output bare, several as a list: as a model returns them."""
    return outputs[0] if len(outputs) == 1 else list(outputs)


def seed_host(seed: int) -> None:
    """Seed ``random`` and numpy's global generator, which takes 32 bits."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the generator that users' data pipelines draw from
