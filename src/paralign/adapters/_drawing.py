"""Functions by which data code draws random numbers, told as what they draw.

Uniform, normal, whole numbers, permutations.

A draw is known by its canonical values: uniform ones between 0 and 1, normal ones of mean 0 and deviation 1, whole numbers counted
from 0 below a span, permutations. Whoever asks for as many of the same kind can be given those of another generator.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple


class Kind(Enum):
    """What is drawn."""

    UNIFORM = "uniform"
    NORMAL = "normal"
    WHOLE = "whole"
    ORDER = "order"


class Law(NamedTuple):
    """A kind, and what turns canonical values into those asked for.

    ``low`` and ``high``, or mean and deviation.
    """

    kind: Kind
    low: Any = 0.0
    high: Any = 1.0


Arguments = Tuple[Any, ...]
Named = Dict[str, Any]


class Function(NamedTuple):
    """One function: where it is, and the law of a call of it.

    None for a call that is left alone.
    """

    owner: str
    name: str
    law: Callable[[Arguments, Named], Optional[Law]]


def _at(place: int, name: str, default: Any = None) -> Callable[[Arguments, Named], Any]:
    return lambda args, named: args[place] if len(args) > place else named.get(name, default)


def _uniform(low: Any = 0.0, high: Any = 1.0) -> Callable[[Arguments, Named], Optional[Law]]:
    """Uniform numbers between constants, or between arguments given as (place, name, default)."""

    def law(args: Arguments, named: Named) -> Optional[Law]:
        ends = [_at(*end)(args, named) if isinstance(end, tuple) else end for end in (low, high)]
        if all(isinstance(end, (int, float)) for end in ends):
            return Law(Kind.UNIFORM, *ends)
        return None

    return law


def _normal(mean: Any = 0.0, deviation: Any = 1.0) -> Callable[[Arguments, Named], Optional[Law]]:
    def law(args: Arguments, named: Named) -> Optional[Law]:
        values = [_at(*v)(args, named) if isinstance(v, tuple) else v for v in (mean, deviation)]
        if all(isinstance(v, (int, float)) for v in values) and values[1]:
            return Law(Kind.NORMAL, *values)
        return None

    return law


def _whole(low: Any, high: Any, more: int = 0) -> Callable[[Arguments, Named], Optional[Law]]:
    """The law of whole numbers from ``low`` to below ``high`` plus ``more``.

    Of one bound alone, it is the upper one.
    """

    def law(args: Arguments, named: Named) -> Optional[Law]:
        first, second = (_at(*end)(args, named) for end in (low, high))
        if second is None or (isinstance(second, (list, tuple)) and not isinstance(first, (list, tuple))):
            first, second = 0, first  # randint(5), and torch.randint(5, (1,))
        if not all(hasattr(end, "__index__") for end in (first, second)):
            return None
        return Law(Kind.WHOLE, int(first), int(second) + more)

    return law


def _choice(args: Arguments, named: Named) -> Optional[Law]:
    """One of a list, as a whole number; with weights or several it is left alone."""
    if len(args) == 1 and not named and hasattr(args[0], "__len__"):
        return Law(Kind.WHOLE, 0, len(args[0]))
    return None


def _order(args: Arguments, named: Named) -> Optional[Law]:
    count: Any = args[0] if args else named.get("n")
    return Law(Kind.ORDER, 0, int(count)) if hasattr(count, "__index__") else None


#: framework -> its functions; '' for those of Python and numpy, which every side has
FUNCTIONS: Dict[str, List[Function]] = {
    "": [
        Function("random", "random", _uniform()),
        Function("random", "uniform", _uniform((0, "a"), (1, "b"))),
        Function("random", "gauss", _normal((0, "mu", 0.0), (1, "sigma", 1.0))),
        Function("random", "normalvariate", _normal((0, "mu", 0.0), (1, "sigma", 1.0))),
        Function("random", "randint", _whole((0, "a"), (1, "b"), 1)),
        Function("random", "randrange", lambda args, named: None if len(args) > 2 else _whole((0, "start"), (1, "stop"))(args, named)),  # noqa: PLR2004 - a step
        Function("random", "choice", _choice),
        Function("numpy.random", "rand", _uniform()),
        Function("numpy.random", "random", _uniform()),
        Function("numpy.random", "random_sample", _uniform()),
        Function("numpy.random", "uniform", _uniform((0, "low", 0.0), (1, "high", 1.0))),
        Function("numpy.random", "randn", _normal()),
        Function("numpy.random", "standard_normal", _normal()),
        Function("numpy.random", "normal", _normal((0, "loc", 0.0), (1, "scale", 1.0))),
        Function("numpy.random", "randint", _whole((0, "low"), (1, "high"))),
        Function("numpy.random", "permutation", _order),
    ],
    "torch": [
        Function("torch", "rand", _uniform()),
        Function("torch", "randn", _normal()),
        Function("torch", "randint", _whole((0, "low", 0), (1, "high"))),
        Function("torch", "randperm", _order),
        Function("torch.Tensor", "uniform_", _uniform((1, "from", 0.0), (2, "to", 1.0))),
        Function("torch.Tensor", "normal_", _normal((1, "mean", 0.0), (2, "std", 1.0))),
    ],
    "paddle": [
        Function("paddle", "rand", _uniform()),
        Function("paddle", "uniform", _uniform((2, "min", -1.0), (3, "max", 1.0))),
        Function("paddle", "randn", _normal()),
        Function("paddle", "standard_normal", _normal()),
        Function("paddle", "normal", _normal((0, "mean", 0.0), (1, "std", 1.0))),
        Function("paddle", "randint", _whole((0, "low", 0), (1, "high"))),
        Function("paddle", "randperm", _order),
        Function("paddle.Tensor", "uniform_", _uniform((1, "min", -1.0), (2, "max", 1.0))),
        Function("paddle.Tensor", "normal_", _normal((1, "mean", 0.0), (2, "std", 1.0))),
    ],
}


def refill(framework: str, tensor: Any, value: Any) -> None:
    """Put values into a tensor in place, as its framework does; nothing where it cannot."""
    if framework == "paddle" and hasattr(tensor, "copy_"):
        tensor.copy_(value, False)
    elif hasattr(tensor, "copy_"):
        tensor.copy_(value)
    elif hasattr(tensor, "set_value"):
        tensor.set_value(value)
