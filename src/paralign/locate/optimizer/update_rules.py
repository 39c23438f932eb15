"""Update rules, recomputed: what an optimizer with given terms makes of given gradients.

Every rule is written out from its published formula, in float64, with each point in which implementations differ as a term that
can be changed. Rules work element by element, so a sample of a parameter's elements is enough; norms are given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Array = np.ndarray[Any, Any]

#: what is added to a norm before dividing by it: PyTorch does so
SLACK = 1e-6


@dataclass(frozen=True)
class Terms:
    """The terms of one parameter's update rule.

    ``rates`` is the learning rate of each step. ``style`` says what weight decay does: ``coupled`` (L2: it joins the gradient),
    ``l1``, ``decoupled`` (the weight shrinks by rate times decay before the update), ``after`` (the updated weight shrinks),
    ``unscaled`` (the weight shrinks by the decay, whatever the rate). ``place`` is where epsilon stands: ``outside`` the root,
    ``inside`` it, ``hat`` (outside, before bias correction), ``twice`` (in the variance too). ``clip`` is ``global``, ``group``
    or ``tensor`` (norms), ``value``, or empty; ``late`` clips what weight decay has joined.
    ``whole`` multiplies what each step does as a whole.
    ``single``: the kernel is given the betas in float32; corrections of Adam and Adamax come from powers that are kept apart.
    ``sign`` is -1 for ascent. ``first`` and ``second`` are Adam's betas; ``first`` is also momentum.
    """

    family: str
    rates: tuple[float, ...]
    decay: float = 0.0
    style: str = "coupled"
    first: float = 0.0
    second: float = 0.999
    dampening: float = 0.0
    nesterov: bool = False
    scaled: bool = False
    damped: bool = False
    eps: float = 1e-8
    place: str = "outside"
    corrected: str = "both"
    amsgrad: bool = False
    centered: bool = False
    drift: float = 0.004
    fading: float = 0.0
    start: float = 0.0
    clip: str = ""
    threshold: float = 0.0
    slack: float = 0.0
    late: bool = False
    group: int = 0
    sign: float = 1.0
    moves: bool = True
    whole: tuple[float, ...] = ()
    single: bool = False

    @property
    def betas(self) -> tuple[float, float]:
        """What the means weigh their old values with, as the kernel has it."""
        return (_single(self.first), _single(self.second)) if self.single else (self.first, self.second)


def _single(value: float) -> float:
    return float(np.float32(value))


@dataclass
class Trace:
    """What happened to a sample of one parameter's elements.

    Args:
        name: the parameter.
        weight: its values before the first step, shape (n,).
        gradients: of each step, shape (n,) each; None where there was none.
        norms: the L2 norm of the whole gradient at each step.
        steps: what each step added on the two sides, shape (steps, n).
        whole: whether the sample is the whole parameter.
    """

    name: str
    weight: Array
    gradients: list[Array | None]
    norms: list[float]
    steps: dict[str, Array] = field(default_factory=dict)
    dims: int = 0
    whole: bool = True


@dataclass
class _State:
    """What a rule remembers of one parameter."""

    first: Array
    second: Array
    third: Array
    most: Array
    product: float = 1.0
    count: int = 0


def moved(recipe: Mapping[str, Terms], traces: Mapping[str, Trace]) -> dict[str, Array]:
    """What each step adds to every parameter of a recipe, shape (steps, n).

    Args:
        recipe: parameter -> the terms of its rule.
        traces: parameter -> its weight and gradients.
    """
    alike: dict[Any, list[str]] = {}
    for (name, terms), factors in zip(recipe.items(), _clipping(recipe, traces).values(), strict=True):
        without = tuple(gradient is None for gradient in traces[name].gradients)
        alike.setdefault((terms, tuple(factors), without), []).append(name)
    steps: dict[str, Array] = {}
    for (terms, factors, _), names in alike.items():
        steps.update(_run_together(terms, {name: traces[name] for name in names}, factors))
    return {name: steps[name] for name in recipe}


def _run_together(terms: Terms, traces: Mapping[str, Trace], factors: Sequence[float]) -> Iterator[tuple[str, Array]]:
    """What each step adds to parameters with one rule, whose elements are laid end to end.

    A search tries thousands of rules on a few numbers: it is the count of operations that takes time.
    """
    if len(traces) == 1:
        ((name, trace),) = traces.items()
        yield name, _run(terms, trace, factors)
        return
    gradients = [None if parts[0] is None else np.concatenate(parts) for parts in zip(*(t.gradients for t in traces.values()), strict=True)]
    added = _run(terms, Trace("", np.concatenate([t.weight for t in traces.values()]), gradients, []), factors)
    begin = 0
    for name, trace in traces.items():
        end = begin + trace.weight.size
        yield name, added[:, begin:end]
        begin = end


def _run(terms: Terms, trace: Trace, factors: Sequence[float]) -> Array:
    weight, added = trace.weight.astype(np.float64), np.zeros((len(trace.gradients), trace.weight.size))
    zeros = np.zeros_like(weight)
    state = _State(zeros, zeros + terms.start, zeros, zeros)
    with np.errstate(all="ignore"):  # a wrong hypothesis may divide by zero: its error is then not finite, and it is dropped
        for step, gradient in enumerate(trace.gradients):
            if gradient is None or not terms.moves:
                continue
            change = _one(terms, weight, gradient, factors[step], terms.rates[min(step, len(terms.rates) - 1)], state)
            change = change * terms.whole[step] if terms.whole else change
            added[step] = change
            weight = weight + change
    return added


def _one(terms: Terms, weight: Array, gradient: Array, factor: float, rate: float, state: _State) -> Array:
    """What one step adds."""
    state.count += 1
    given = terms.sign * gradient
    if not terms.late:
        given = _clipped(terms, given, factor)
    if terms.decay and terms.style in ("coupled", "l1"):
        given = given + terms.decay * (weight if terms.style == "coupled" else np.sign(weight))
    if terms.late:
        given = _clipped(terms, given, factor)
    change = -RULES[terms.family](terms, given, rate, state)
    shrink = rate * terms.decay
    if terms.style == "decoupled":
        return change - shrink * weight
    if terms.style == "after":
        return change - shrink * (weight + change)
    return change - terms.decay * weight if terms.style == "unscaled" else change


def _clipped(terms: Terms, given: Array, factor: float) -> Array:
    return np.clip(given, -terms.threshold, terms.threshold) if terms.clip == "value" else factor * given


def _clipping(recipe: Mapping[str, Terms], traces: Mapping[str, Trace]) -> dict[str, list[float]]:
    """Parameter -> by what clipping by norm multiplies its gradient at each step."""
    count = max((len(t.gradients) for t in traces.values()), default=0)
    totals: dict[Any, list[float]] = {}
    for name, terms in recipe.items():
        squares = totals.setdefault(_circle(terms, name), [0.0] * count)
        for step, gradient in enumerate(traces[name].gradients):
            squares[step] += 0.0 if gradient is None else traces[name].norms[step] ** 2
    return {name: [_factor(terms, math.sqrt(s)) for s in totals[_circle(terms, name)]] for name, terms in recipe.items()}


def _circle(terms: Terms, name: str) -> Any:
    """What a parameter's gradient is clipped together with."""
    return {"global": "", "group": terms.group, "tensor": ("tensor", name)}.get(terms.clip, ("none", name))


def _factor(terms: Terms, norm: float) -> float:
    if terms.clip not in ("global", "group", "tensor") or norm == 0:
        return 1.0
    return min(1.0, terms.threshold / (norm + terms.slack))


# -- families --------------------------------------------------------------------------------------------------------------------


def _sgd(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    """Momentum as PyTorch has it: the buffer starts as the first gradient.

    ``damped``: dampening counts from the first step on.
    """
    if not terms.first:
        return rate * given
    kept = 0.0 if state.count == 1 and not terms.damped else terms.dampening
    fresh = (1 - kept) * given * (rate if terms.scaled else 1.0)
    state.first = terms.first * state.first + fresh
    taken = (fresh if terms.scaled else given) + terms.first * state.first if terms.nesterov else state.first
    return taken if terms.scaled else rate * taken


def _root(terms: Terms, variance: Array, correction: float) -> Array:
    """The denominator of the Adam family."""
    if terms.place == "inside":
        return np.sqrt(variance / correction + terms.eps)
    if terms.place == "hat":
        return (np.sqrt(variance) + terms.eps) / math.sqrt(correction)
    return np.sqrt(variance / correction) + terms.eps


def _corrections(terms: Terms, count: int) -> tuple[float, float]:
    first = 1 - terms.first**count if terms.corrected in ("both", "first") else 1.0
    second = 1 - terms.second**count if terms.corrected in ("both", "second") else 1.0
    return first or 1.0, second or 1.0


def _adam(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    one, two = terms.betas
    state.first = one * state.first + (1 - one) * given
    deviation = given - state.first if terms.family == "adabelief" else given
    state.second = two * state.second + (1 - two) * deviation**2
    if terms.place == "twice":
        state.second = state.second + terms.eps
    state.most = np.maximum(state.most, state.second)
    first, second = _corrections(terms, state.count)
    return rate * (state.first / first) / _root(terms, state.most if terms.amsgrad else state.second, second)


def _nadam(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    """Dozat's Nesterov Adam with the momentum schedule of PyTorch and Paddle."""
    one, two = terms.betas
    state.first = one * state.first + (1 - one) * given
    state.second = two * state.second + (1 - two) * given**2
    now, then = (one * (1 - 0.5 * 0.96 ** (n * terms.drift)) for n in (state.count, state.count + 1))
    state.product *= now
    root = np.sqrt(state.second / (1 - two**state.count)) + terms.eps
    ahead: Array = (1 - now) / (1 - state.product) * given + then / (1 - state.product * then) * state.first
    return rate * ahead / root


def _radam(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    """Liu's rectified Adam."""
    one, two = terms.betas
    state.first = one * state.first + (1 - one) * given
    state.second = two * state.second + (1 - two) * given**2
    first, second = 1 - one**state.count, 1 - two**state.count
    longest = 2 / (1 - two) - 1
    length = longest - 2 * state.count * two**state.count / second
    if length <= 5:  # noqa: PLR2004 - the paper's bound below which the variance is intractable
        return rate * state.first / first
    squared = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return rate * state.first / first * math.sqrt(squared) * math.sqrt(second) / (np.sqrt(state.second) + terms.eps)


def _rmsprop(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    two = terms.betas[1]
    state.second = two * state.second + (1 - two) * given**2
    variance = state.second
    if terms.centered:
        state.third = two * state.third + (1 - two) * given
        variance = state.second - state.third**2
    quotient = given / (np.sqrt(variance + terms.eps) if terms.place == "inside" else np.sqrt(variance) + terms.eps)
    if not terms.first:
        return rate * quotient
    state.first = terms.first * state.first + quotient * (rate if terms.scaled else 1.0)
    return state.first if terms.scaled else rate * state.first


def _adagrad(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    state.second = state.second + given**2
    rate = rate / (1 + (state.count - 1) * terms.fading)
    return rate * given / (np.sqrt(state.second + terms.eps) if terms.place == "inside" else np.sqrt(state.second) + terms.eps)


def _adadelta(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    two = terms.betas[1]
    state.second = two * state.second + (1 - two) * given**2
    if terms.place == "inside":
        taken = np.sqrt(state.third + terms.eps) / np.sqrt(state.second + terms.eps) * given
    else:
        taken = (np.sqrt(state.third) + terms.eps) / (np.sqrt(state.second) + terms.eps) * given
    state.third = two * state.third + (1 - two) * taken**2
    return rate * taken


def _adamax(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    """Adamax; epsilon joins the new size, the old greatest one, or the quotient's.

    ``outside`` is PyTorch's place, ``inside`` Paddle's.
    """
    one, two = terms.betas
    state.first = one * state.first + (1 - one) * given
    if terms.place == "outside":
        state.most = np.maximum(two * state.most, np.abs(given) + terms.eps)
    else:
        state.most = np.maximum(two * state.most + (terms.eps if terms.place == "inside" else 0.0), np.abs(given))
    below = state.most + (terms.eps if terms.place == "hat" else 0.0)
    return rate / _corrections(terms, state.count)[0] * state.first / below


def _lion(terms: Terms, given: Array, rate: float, state: _State) -> Array:
    taken = np.sign(terms.first * state.first + (1 - terms.first) * given)
    state.first = terms.second * state.first + (1 - terms.second) * given
    return rate * taken


RULES: dict[str, Callable[[Terms, Array, float, _State], Array]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adabelief": _adam,
    "nadam": _nadam,
    "radam": _radam,
    "rmsprop": _rmsprop,
    "adagrad": _adagrad,
    "adadelta": _adadelta,
    "adamax": _adamax,
    "lion": _lion,
}
