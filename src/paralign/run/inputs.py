"""Inputs and labels as captures: from arrays, from a file, or drawn from a distribution."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import Capture, CaptureWriter, clear, load_foreign
from paralign.capture.bounds import Limit, axes_fault, checked_path
from paralign.dtypes import STORAGE, Typed, narrow, typed
from paralign.errors import UnsupportedTensor, UsageError, quoted
from paralign.model import Manifest
from paralign.worker.datasets.feed import name_of
from paralign.worker.values.trees import leaves, structure

if TYPE_CHECKING:
    from pathlib import Path

#: drawn values are float64 until they are cast, and both sides hold them too
INPUT = Limit("PARALIGN_MAX_INPUT", 1 << 32, "bytes")
DISTRIBUTIONS = ("normal", "uniform", "integers", "zeros", "ones", "arange")


def save(folder: Path, name: str, value: Any) -> Capture:
    """Write nested arrays as a capture with one tree called ``name``.

    What an earlier run left there is replaced.
    """
    return save_several(folder, name, [value])


def save_several(folder: Path, name: str, values: list[Any]) -> Capture:
    """As :func:`save`, with one tree for each value: ``name``, ``name_1``, ``name_2``, …."""
    clear(folder)
    digest = hashlib.sha256()
    trees = {name_of(name, number): value for number, value in enumerate(values)}
    manifest = Manifest(stage="inputs", settings={"trees": {each: structure(value, _is_array) for each, value in trees.items()}})
    with CaptureWriter(folder, manifest) as writer:
        for each, path, leaf in ((each, *known) for each, value in trees.items() for known in leaves(value, _is_array)):
            try:
                known = leaf if isinstance(leaf, Typed) else typed(leaf)
            except UnsupportedTensor as error:
                raise UsageError(error.what, where=f"{each}.{path}", hint=error.hint) from error
            digest.update(f"{path if each == name else f'{each} {path}'} {known.dtype} {known.array.shape}".encode())
            digest.update(np.ascontiguousarray(known.array).tobytes())
            writer.add(each, known, role="input", leaf=path)
        writer.manifest.settings["key"] = digest.hexdigest()
    return Capture.open(folder)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, Typed))


def make(spec: Any, folder: Path, where: str, seed: int) -> Any:
    """Nested arrays for an ``[inputs]`` or ``[labels]`` entry of a project file.

    A list gives a tuple (positional), a table of tables a dict (keyword), one table one array.

    Raises:
        UsageError: no shape, an unknown distribution or dtype, a file that is not there.
    """
    if isinstance(spec, list):
        return tuple(make(s, folder, f"{where}[{i}]", seed + i) for i, s in enumerate(spec))
    if "keywords" in spec:
        return {k: make(s, folder, f"{where}.{k}", seed + i) for i, (k, s) in enumerate(spec["keywords"].items())}
    if "file" in spec:
        return _from_file(folder / spec["file"], where)
    return _draw(spec, where, seed)


def _from_file(path: Path, where: str) -> Any:
    if not checked_path(path).is_file():
        raise UsageError(
            "the file of inputs is not there", where=f"{where}: {path}", hint="correct `file`, a path relative to paralign.toml"
        )
    value = load_foreign(path)
    if path.suffix == ".npz" and isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _draw(spec: dict[str, Any], where: str, seed: int) -> Typed:
    shape, dtype = _shape(spec, where), spec.get("dtype", "float32")
    if dtype not in STORAGE:
        raise UsageError(f"unknown dtype {quoted(dtype)}", where=where, hint="choose one of: " + ", ".join(STORAGE))
    kind = spec.get("distribution", "normal" if dtype.startswith(("float", "bfloat", "complex")) else "integers")
    if kind not in DISTRIBUTIONS:
        raise UsageError(f"unknown distribution {quoted(kind)}", where=where, hint="choose one of: " + ", ".join(DISTRIBUTIONS))
    number = spec.get("seed", seed)
    if number < 0:
        raise UsageError(f"seed must not be negative, it is {number}", where=where)
    low, high = spec.get("low", 0), spec.get("high", 2 if kind == "integers" else 1)
    if kind in ("uniform", "integers") and high <= low:
        raise UsageError(f"high ({high}) must be above low ({low})", where=where)
    if spec.get("std", 1.0) < 0:
        raise UsageError(f"std must not be negative, it is {spec['std']}", where=where)
    values = _drawn(kind, shape, spec, (low, high), number, where)
    if dtype.startswith(("int", "uint")) and values.size:
        limits = np.iinfo(STORAGE[dtype])
        if values.min() < limits.min or values.max() > limits.max:
            raise UsageError(
                f"values from {values.min():g} to {values.max():g} do not fit into {dtype}",
                where=where,
                hint="set low and high, or another dtype",
            )
    return narrow(values, dtype)


def _drawn(kind: str, shape: list[int], spec: dict[str, Any], bounds: tuple[float, float], seed: int, where: str) -> np.ndarray[Any, Any]:
    """Values before they are cast; complex ones where the type is."""
    for key in ("low", "high", "mean", "std"):
        if not math.isfinite(spec.get(key, 0.0)):
            raise UsageError(f"{key} must be finite, it is {spec[key]}", where=where)
    random = np.random.default_rng(seed)
    try:
        values = _values(kind, shape, spec, *bounds, random)
        if spec.get("dtype", "").startswith("complex"):
            values = values + 1j * _values(kind, shape, spec, *bounds, random)
    except (ValueError, OverflowError) as fault:  # by what numpy meets first: bounds too far apart, or beyond 64 bits
        raise UsageError(f"no values can be drawn: {fault}", where=where, hint="set low, high, mean and std closer to 0") from fault
    return values


def _shape(spec: dict[str, Any], where: str) -> list[int]:
    if "shape" not in spec:
        raise UsageError(
            "neither a shape nor a file is given",
            where=where,
            hint='set `shape = [2, 3, 224, 224]`, `file = "inputs.npy"`, or `source = "dataloader"`',
        )
    shape = spec["shape"]
    if not all(type(n) is int and n >= 0 for n in shape):
        raise UsageError("a shape is a list of whole numbers", where=f"{where}: {quoted(shape)}")
    fault = axes_fault(shape)
    if fault is not None:
        raise UsageError(f"this is an {fault}", where=where, hint="give fewer axes, or shorter ones")
    INPUT.check(math.prod(shape) * 8, "values of this shape take", where, UsageError)
    return list(shape)


def _values(
    kind: str, shape: list[int], spec: dict[str, Any], low: float, high: float, random: np.random.Generator
) -> np.ndarray[Any, Any]:
    if kind == "normal":
        return random.normal(spec.get("mean", 0.0), spec.get("std", 1.0), shape)
    if kind == "uniform":
        return random.uniform(low, high, shape)
    if kind == "integers":
        return random.integers(int(low), int(high), shape)
    if kind == "arange":
        return np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return np.full(shape, float(kind == "ones"))
