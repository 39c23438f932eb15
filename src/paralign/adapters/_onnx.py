"""Sessions of ONNX Runtime, as far as running a file needs them.

What it cannot take is refused.

A file is parsed by the runtime and is no code; libraries of custom operators are never loaded.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple, Type

from paralign.adapters import _exported
from paralign.errors import EnvironmentUnavailable, UsageError

if TYPE_CHECKING:
    import numpy as np

#: what ONNX Runtime calls element types -> numpy's names; others are left to the runtime
ELEMENTS = {
    **{f"tensor({name})": name for name in ("float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}

#: what the profile adds to a node's name where it tells the time of its kernel
_KERNEL = "_kernel_time"

PROVIDERS = {"cpu": ["CPUExecutionProvider"], "gpu:0": ["CUDAExecutionProvider", "CPUExecutionProvider"]}


def runtime(where: str) -> Any:
    """The package onnxruntime.

    Raises:
        EnvironmentUnavailable: it cannot be imported.
    """
    try:
        import onnxruntime
    except ImportError as missing:
        raise EnvironmentUnavailable(
            f"an ONNX file cannot be run here: {missing}", where=where, hint="install onnxruntime for this interpreter"
        ) from missing
    return onnxruntime


def failures() -> Tuple[Type[Exception], ...]:
    """What the runtime raises: Python's exceptions, and classes of its own.

    These derive from Exception alone.
    """
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return (RuntimeError, ValueError)
    own = [value for value in vars(state).values() if isinstance(value, type) and issubclass(value, Exception)]
    return (RuntimeError, ValueError, *own)


def session(path: str, device: str = "cpu", *, profile: str = "") -> Any:
    """A session on a file.

    Args:
        path: of the file.
        device: ``cpu`` or ``gpu:0``.
        profile: what the name of the file of times begins with; '' for none.

    Raises:
        EnvironmentUnavailable: onnxruntime cannot be imported.
        UsageError: the file is none that the runtime can load.
    """
    package = runtime(path)
    given: Dict[str, Any] = {"providers": PROVIDERS[device]}
    if profile:
        given["sess_options"] = package.SessionOptions()
        given["sess_options"].enable_profiling = True
        given["sess_options"].profile_file_prefix = profile
    try:
        return package.InferenceSession(path, **given)
    except failures() as error:
        raise _exported.broken(path, "an ONNX program", error) from error


def run(opened: Any, feed: "Dict[str, np.ndarray[Any, Any]]", where: str) -> List[Any]:
    """All outputs, in the program's order.

    Raises:
        UsageError: an input of another name, type or shape than the program takes.
    """
    _check(opened, feed, where)
    try:
        found: List[Any] = opened.run(None, feed)
    except failures() as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(
            "ONNX Runtime stopped: " + " ".join(lines[:3]),
            where=where,
            hint="give inputs of the shapes that the program was exported for, or export it with dynamic axes",
        ) from error
    return found


def run_file(path: str, inputs: Sequence[Any]) -> Any:
    """Outputs of an ONNX file on the CPU: one bare, several as a list.

    Raises:
        EnvironmentUnavailable: onnxruntime cannot be imported.
        UsageError: the file cannot be loaded, or takes inputs of another number, type or shape.
    """
    opened = session(path)
    names = [entry.name for entry in opened.get_inputs()]
    return _exported.single(run(opened, _exported.named(names, inputs, path), path))


def operator_times(path: str, inputs: Sequence[Any]) -> List[_exported.OperatorTime]:
    """What ONNX Runtime's profile says of each node of a file, the slowest first.

    The mean of several runs after a first one.

    Raises:
        EnvironmentUnavailable: onnxruntime cannot be imported.
        UsageError: as :func:`run_file`.
    """
    with tempfile.TemporaryDirectory(prefix="paralign-times-") as folder:
        opened = session(path, profile=str(Path(folder) / "times"))
        feed = _exported.named([entry.name for entry in opened.get_inputs()], inputs, path)
        for _ in range(_exported.RUNS + 1):
            run(opened, feed, path)
        events = json.loads(Path(opened.end_profiling()).read_text(encoding="utf-8"))
    spent: Dict[Tuple[str, str], List[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            key = event["args"].get("op_name", ""), event["name"][: -len(_KERNEL)]
            spent.setdefault(key, []).append(event["dur"] / 1000)
    found = []
    for (operator, name), times in spent.items():
        calls = max(1, len(times) // (_exported.RUNS + 1))
        found.append(_exported.OperatorTime(f"{operator} ({name})", sum(times[calls:]) / _exported.RUNS, calls))
    return sorted(found, key=lambda each: -each.milliseconds)


def _check(opened: Any, feed: "Dict[str, np.ndarray[Any, Any]]", where: str) -> None:
    for entry in opened.get_inputs():
        wanted = ELEMENTS.get(getattr(entry, "type", ""))
        if entry.name in feed and wanted is not None and feed[entry.name].dtype.name != wanted:
            raise UsageError(
                f"input {entry.name} of this program is {wanted}, it was given {feed[entry.name].dtype.name}",
                where=where,
                hint="give values of that type, or export the program for the other",
            )


def named(names: Sequence[str], args: Sequence[Any], kwargs: Dict[str, Any], where: str) -> "Dict[str, np.ndarray[Any, Any]]":
    """Arrays by the names of a program's inputs, from a call by position, by name, or both.

    Raises:
        UsageError: a name that the program does not have, or another number of inputs.
    """
    unknown = sorted(set(kwargs) - set(names))
    if unknown:
        raise UsageError(
            f"the program has no input {unknown[0]}; it has: {', '.join(names)}",
            where=where,
            hint="name the inputs as the program does, or give them by position",
        )
    by_position = [name for name in names if name not in kwargs]
    fed = _exported.named(by_position, args, where) if by_position or args else {}
    return {**fed, **_exported.named(list(kwargs), list(kwargs.values()), where)}
