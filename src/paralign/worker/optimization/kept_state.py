"""What an optimizer of the user's own keeps in its attributes, to be compared."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import numpy as np

from paralign.errors import UnsupportedTensor
from paralign.worker.optimization.optimizers import is_own
from paralign.worker.optimization.several import members_of

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session

#: attributes that the frameworks keep on any optimizer: counters of calls, and slots that the first step makes
_FRAMEWORKS = frozenset({"_opt_called", "_step_count", "_accumulators", "_accumulators_holder", "_already_create_accumulator"})

#: containers within each other that are looked at, and entries of one
_DEEP, _ENTRIES = 4, 100_000


def kept(session: "Session", optimizer: Any) -> Dict[str, Any]:
    """Attribute -> what tells its value; of classes of the user's own alone.

    Tensors and arrays are told by a checksum. Objects of other kinds count by their class: what they hold is not looked at.
    """
    found: Dict[str, Any] = {}
    for member in members_of(optimizer):
        if is_own(member):
            held = vars(member) if hasattr(member, "__dict__") else {}
            found.update({name: _told(session, value, _DEEP) for name, value in held.items() if name not in _FRAMEWORKS})
    return found


def forgotten(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """The attributes that loading a state has not brought back."""
    return sorted(name for name, value in before.items() if after.get(name) != value)


def _told(session: "Session", value: Any, deep: int) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    parts = _parts(value) if deep else None
    if parts is not None:
        return [_told(session, each, deep - 1) for each in parts[:_ENTRIES]]
    array = _array(session, value)
    return type(value).__qualname__ if array is None else _checksum(array)


def _parts(value: Any) -> Optional[List[Any]]:
    """What a container holds, None for all else; keys may be numbers of objects, which differ."""
    if isinstance(value, dict):
        return list(dict.values(value))
    return list(value) if isinstance(value, (list, tuple)) else None


def _array(session: "Session", value: Any) -> "Optional[np.ndarray[Any, Any]]":
    """The elements of a tensor or array; None of one that has none, or of another object."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if not session.adapter.is_tensor(value):
        return None
    try:
        return session.adapter.to_array(value).array
    except UnsupportedTensor:  # sparse, without values, of a type that numpy lacks
        return None


def _checksum(array: "np.ndarray[Any, Any]") -> Any:
    if array.dtype.hasobject:
        return "objects"
    return [list(array.shape), zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0]
