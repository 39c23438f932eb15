"""Tensors of a checkpoint of any format, each read from given ranges of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from paralign.capture.bounds import Limit, open_regular
from paralign.dtypes import STORAGE, Typed
from paralign.errors import CaptureFormatError

#: how the name of a file of ranges ends
SUFFIX = "-ranges.json"

#: each tensor has some 200 bytes
LARGEST = Limit("PARALIGN_MAX_INDEX", 1 << 28, "bytes")


class Place(NamedTuple):
    """A tensor's element type and shape, and the ranges that hold it: file, start, bytes."""

    dtype: str
    shape: Tuple[int, ...]
    parts: List[Tuple[str, int, int]]


def read_places(path: str) -> Dict[str, Place]:
    """What a file of ranges says, by the tensor's name.

    Raises:
        CaptureFormatError: it is none.
    """
    with open_regular(Path(path)) as file:
        data = file.read(LARGEST.value + 1)
    LARGEST.check(len(data), "the file has at least", path)
    try:
        content = json.loads(data.decode("utf-8"))
        return {str(name): _place(told) for name, told in content["tensors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise CaptureFormatError(f"this is no file of ranges: {fault!r}", where=path, hint="check again with --fresh") from fault


def _place(told: Dict[str, Any]) -> Place:
    parts = [(str(file), int(start), int(length)) for file, start, length in told["parts"]]
    place = Place(str(told["dtype"]), tuple(int(length) for length in told["shape"]), parts)
    size = STORAGE[place.dtype].itemsize
    for length in place.shape:
        size *= length
    if size != sum(length for *_, length in parts) or any(start < 0 or length < 0 for _, start, length in parts):
        raise ValueError(f"{size} bytes in ranges of {[length for *_, length in parts]}")
    return place


def read_tensor(place: Place) -> Typed:
    """A tensor, in the memory of its file where one range holds it.

    Raises:
        CaptureFormatError: a file has become shorter.
    """
    dtype = STORAGE[place.dtype].newbyteorder("<")
    pieces = [_bytes(*part) for part in place.parts]
    joined = pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.uint8), *pieces])
    array = np.ndarray(place.shape, dtype, buffer=joined)
    return Typed(array.astype(STORAGE[place.dtype], copy=False), place.dtype)


def _bytes(file: str, start: int, length: int) -> "np.ndarray[Any, Any]":
    if length == 0:
        return np.empty(0, np.uint8)
    try:
        return np.memmap(file, np.uint8, "r", start, (length,))
    except (OSError, ValueError) as fault:
        raise CaptureFormatError(
            f"the file no longer holds the bytes {start} to {start + length}: {fault}",
            where=file,
            hint="put the checkpoint back, check again",
        ) from fault
