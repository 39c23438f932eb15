"""What an optimizer of the user's own keeps in its attributes, to be compared."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Dict, List

import numpy as np

from paralign.worker.optimizers import is_own
from paralign.worker.several import members_of

if TYPE_CHECKING:
    from paralign.worker.session import Session

#: containers within each other that are looked at, and entries of one
_DEEP, _ENTRIES = 4, 100_000


def kept(session: "Session", optimizer: Any) -> Dict[str, Any]:
    """Attribute -> what tells its value; of classes of the user's own alone.

    Tensors and arrays are told by a checksum. Objects of other kinds count by their class: what they hold is not looked at.
    """
    found: Dict[str, Any] = {}
    for member in members_of(optimizer):
        if is_own(member):
            for name, value in vars(member).items() if hasattr(member, "__dict__") else ():
                found[name] = _told(session, value, _DEEP)
    return found


def forgotten(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """The attributes that loading a state has not brought back."""
    return sorted(name for name, value in before.items() if after.get(name) != value)


def _told(session: "Session", value: Any, deep: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if session.adapter.is_tensor(value):
        return _checksum(session.adapter.to_array(value).array)
    if isinstance(value, (np.ndarray, np.generic)):
        return _checksum(np.asarray(value))
    if deep and isinstance(value, (list, tuple)):
        return [_told(session, each, deep - 1) for each in value[:_ENTRIES]]
    if deep and isinstance(value, dict):  # keys may be numbers of objects, which differ
        return [_told(session, each, deep - 1) for each in list(value.values())[:_ENTRIES]]
    return type(value).__qualname__


def _checksum(array: "np.ndarray[Any, Any]") -> Any:
    if array.dtype.hasobject:
        return "objects"
    return [list(array.shape), zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0]
