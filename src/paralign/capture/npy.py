"""numpy's own file format, every claim checked before anything is allocated."""

from __future__ import annotations

import ast
import math
import re
import struct
import warnings
from typing import Any, BinaryIO, Tuple

import numpy as np

from paralign.capture.bounds import axes_fault
from paralign.capture.unpickle import unpickle
from paralign.errors import CaptureFormatError, UnsafeFile, quoted

MAGIC = b"\x93NUMPY"

_LONGEST_HEADER = 10_000
_ELEMENT = re.compile(r"[<>|=]?[biufcSU][1-9][0-9]{0,8}")
_OBJECT = re.compile(r"\|?O[48]?")
_REMEDY = "copy the file again from where it came, or write it again"


def read_npy(stream: BinaryIO, size: int, where: str) -> Any:
    """The content of a ``.npy`` file: an array, or the one object that it holds.

    A saved dict is such an object.

    Args:
        stream: at the beginning of the file.
        size: bytes of the file.
        where: how errors call the file.

    Raises:
        UnsafeFile: a pickle inside names or does what arrays and containers do not need; or structured elements.
        CaptureFormatError: the file is truncated or damaged, or claims more than it has.
    """
    descr, fortran, shape, data = read_header(stream, size, where)
    if _OBJECT.fullmatch(descr):
        return _read_objects(stream, size - data, shape, where)
    if not _ELEMENT.fullmatch(descr):
        raise UnsafeFile(
            f"the file holds elements of type {quoted(descr)}, which are refused",
            where=where,
            hint="convert them to numbers, booleans or texts where the file is written",
        )
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError) as fault:
        raise _damaged(f"there is no element type {quoted(descr)}", where) from fault
    needed = math.prod(shape) * dtype.itemsize
    if needed != size - data:
        raise _damaged(f"an array of shape {quoted(shape)} and type {dtype} takes {needed} bytes, {size - data} are there", where)
    return _read_array(stream, dtype, shape, where, fortran=fortran)


def _read_array(stream: BinaryIO, dtype: "np.dtype[Any]", shape: Tuple[int, ...], where: str, *, fortran: bool) -> "np.ndarray[Any, Any]":
    """The elements, in memory of their own."""
    content = bytearray(math.prod(shape) * dtype.itemsize)
    view, filled = memoryview(content), 0
    while filled < len(content):
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined] # every binary stream of the library has it
        if not count:
            raise _damaged(f"its data end after {filled} of {len(content)} bytes", where)
        filled += count
    try:
        return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    except ValueError as fault:  # more dimensions, or larger ones beside a 0, than numpy can hold
        raise _damaged(f"an array has the impossible shape {quoted(shape)}", where) from fault


def _read_objects(stream: BinaryIO, size: int, shape: Tuple[int, ...], where: str) -> Any:
    array = unpickle(stream, size, where)
    if not isinstance(array, np.ndarray) or array.dtype != object or array.shape != shape:
        raise _damaged("its header tells of an array of objects, the pickle inside holds something else", where)
    return array.tolist()


def read_header(stream: BinaryIO, size: int, where: str) -> Tuple[str, bool, Tuple[int, ...], int]:
    """Element type, order, shape, and where the data begin."""
    start = stream.read(len(MAGIC) + 2)
    if len(start) < len(MAGIC) + 2 or not start.startswith(MAGIC):
        raise _damaged("it does not begin like a .npy file", where)
    if start[6] not in (1, 2, 3):
        raise CaptureFormatError(
            f"the file has version {start[6]}.{start[7]} of the .npy format, known are 1.0, 2.0 and 3.0",
            where=where,
            hint="save the array with a numpy that writes an older version",
        )
    width, code = (2, "<H") if start[6] == 1 else (4, "<I")
    prefix = stream.read(width)
    if len(prefix) < width:
        raise _damaged("it ends inside its header", where)
    (length,) = struct.unpack(code, prefix)
    data = len(start) + width + length
    if length > _LONGEST_HEADER or data > size:
        raise _damaged(f"it claims a header of {length} bytes", where)
    descr, fortran, shape = _parse_header(stream.read(length), where)
    return descr, fortran, shape, data


def _parse_header(text: bytes, where: str) -> Tuple[str, bool, Tuple[int, ...]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, about the spelling of what damage left
            header = ast.literal_eval(text.decode("utf-8").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as fault:
        raise _damaged("its header is no Python literal", where) from fault
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise _damaged("its header must have descr, fortran_order and shape, and nothing else", where)
    descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    if isinstance(descr, list):
        raise UnsafeFile("the file holds structured elements", where=where, hint="write one array a field")
    if not isinstance(descr, str) or not isinstance(fortran, bool):
        raise _damaged(f"its header says {quoted(header)}", where)
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise _damaged(f"its shape {quoted(shape)} is no tuple of whole numbers from 0", where)
    impossible = axes_fault(shape)
    if impossible is not None:
        raise _damaged(f"an array has the {impossible}", where)
    return descr, fortran, shape


def _damaged(cause: str, where: str) -> CaptureFormatError:
    return CaptureFormatError(f"the file is truncated or damaged: {cause}", where=where, hint=_REMEDY)
