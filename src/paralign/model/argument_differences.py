"""Arguments that the two operations at a guilty point have in common, with other values."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

#: names of a framework's kernels -> one name for both
_CALLED = {
    "eps": "epsilon",
    "keepdim": "keep_dim",
    "padding": "paddings",
    "stride": "strides",
    "dilation": "dilations",
    "kernel_size": "ksize",
}

#: what is counted from another end, from another convention, or by the mode of the pass
_LEFT_OUT = frozenset({
    "axis", "dim", "axes", "dims", "perm", "start", "end", "starts", "ends", "dtype", "momentum", "training", "is_test",
})  # fmt: skip

#: relative distance up to which two numbers are one: an argument may be kept in float32
_ONE = 1e-6

#: kinds of faults at which the reference's operation is another step than the candidate's
_OF_OTHER_STEPS = frozenset({"missing", "extra", "region"})


class ArgumentDifference(NamedTuple):
    """An argument by the candidate's name, its value there and in the reference."""

    name: str
    candidate: Any
    reference: Any


def argument_differences(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> List[ArgumentDifference]:
    """Find arguments of one meaning that have other values on the two sides.

    >>> argument_differences({"eps": 0.001, "momentum": 0.01}, {"epsilon": 1e-05, "momentum": 0.99})
    [ArgumentDifference(name='epsilon', candidate=1e-05, reference=0.001)]
    """
    due: Dict[str, Any] = {_CALLED.get(name, name): value for name, value in reference.items() if name not in _LEFT_OUT}
    found = []
    for name, value in candidate.items():
        common = _CALLED.get(name, name)
        if name in _LEFT_OUT or common not in due:
            continue
        if _is_other(value, due[common]):
            found.append(ArgumentDifference(name, value, due[common]))
    return found


def are_comparable(kind: str, reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> bool:
    """Whether the arguments of two operations at a fault are of one kind of operation.

    Not where a step is missing, extra or made of others, nor where no argument of either means what one of the other does.

    >>> are_comparable("different", {"eps": 0.001}, {"epsilon": 1e-05}), are_comparable("different", {"eps": 0.001}, {"groups": 2})
    (True, False)
    """
    if kind in _OF_OTHER_STEPS:
        return False
    names = [{_CALLED.get(name, name) for name in given if name not in _LEFT_OUT} for given in (reference, candidate)]
    return not all(names) or bool(names[0] & names[1])


def spread_out(one: Any, other: Any) -> List[List[Any]]:
    """Two arguments as lists; a number stands for as many of it as the other one has.

    >>> spread_out(1, [1, 2])
    [[1, 1], [1, 2]]
    """
    ends = [list(value) if isinstance(value, (list, tuple)) else [value] for value in (one, other)]
    longest = max(map(len, ends))
    return [end * longest if len(end) == 1 else end for end in ends]


def _is_other(one: Any, other: Any) -> bool:
    """Whether two arguments differ in what they say; a number and a list of it alone do not."""
    spread = spread_out(one, other)
    if len(spread[0]) != len(spread[1]):
        return False  # written in another way: padding of one number a side and of two
    return any(_differ(first, second) for first, second in zip(*spread))


def _differ(one: Any, other: Any) -> bool:
    """Whether two arguments of one kind, text or number or truth value, are not equal."""
    kind = _kind(one)
    if kind is None or kind is not _kind(other):
        return False
    if kind is float:
        return not _is_near(one, other)
    return bool(one != other)


def _kind(value: Any) -> Optional[type]:
    """The kind of an argument, ``float`` for all numbers; None for what is not compared."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, (int, float)):
        return float
    return str if type(value) is str else None


def _is_near(one: float, other: float) -> bool:
    """Whether two numbers are one but for rounding, whole ones of any size included."""
    try:
        return math.isclose(one, other, rel_tol=_ONE)
    except OverflowError:
        return one == other
