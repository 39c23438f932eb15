"""Which terms of an update rule explain what an optimizer did.

Hypotheses are recomputed and held against the steps.

Each side is identified by itself: starting from what its optimizer tells, terms are changed until the recomputed steps are the
observed ones to within noise. Where both are known, the terms in which they differ are tried one by one; those without
which the candidate's steps cannot be reproduced are the causes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.optimizer.fit import SCALARS, fit
from paralign.locate.optimizer.read_config import SINGLE, standard_clip
from paralign.locate.optimizer.update_rules import Terms, Trace, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Recipe = dict[str, Terms]
Traces = dict[str, Trace]
Edit = "Callable[[Terms], Terms]"

#: terms that only together make sense
BUNDLES = (("clip", "threshold", "slack", "late"), ("decay", "style"))

#: terms with a number for each step, and how far such numbers may be apart, relative, where a kernel computes in float32
STEPWISE, SAME = ("rates", "whole"), 2e-6

#: how many changes of terms are put together at most to explain a side
DEPTH = 3

#: starts from which the search is made at most: those that explain most parameters as they are
TRIED = 4

#: seconds after which the search for a side's rule is given up
PATIENCE = 60.0


@dataclass
class Known:
    """A side's rule as far as it was identified.

    Args:
        recipe: parameter -> terms.
        left: parameters whose steps the recipe does not reproduce -> relative error.
        fitted: terms whose values were found from the steps, not told by the optimizer.
    """

    recipe: Recipe
    left: dict[str, float]
    fitted: set[str] = field(default_factory=set)


@dataclass
class Difference:
    """One difference between two rules, on the parameters that have it."""

    terms: tuple[str, ...]
    reference: tuple[Any, ...]
    candidate: tuple[Any, ...]
    parameters: list[str]
    before: float = 0.0
    after: float = 0.0


def far(expected: np.ndarray[Any, Any], observed: np.ndarray[Any, Any]) -> float:
    """The relative L2 distance of two histories of steps.

    Infinite where one is zero or not finite.
    """
    size, error = float(np.linalg.norm(observed)), float(np.linalg.norm(expected - observed))
    if not math.isfinite(error):
        return math.inf
    if size == 0:
        return 0.0 if error == 0 else math.inf
    return error / size


def errors(recipe: Recipe, traces: Traces, side: str) -> dict[str, float]:
    """How far the recomputed steps of each parameter are from what the side did."""
    steps = moved(recipe, traces)
    return {name: far(steps[name], traces[name].steps[side]) for name in recipe}


def identify(side: str, traces: Traces, starts: list[Recipe], limits: Mapping[str, float]) -> Known:
    """The recipe that reproduces a side's steps, or the nearest one found.

    Args:
        side: ``reference`` or ``candidate``.
        traces: what happened to each parameter.
        starts: recipes to begin with, the likeliest first.
        limits: parameter -> the relative error up to which steps count as reproduced.
    """
    best: Known | None = None
    still = [{name: _still(terms, traces[name], side) for name, terms in start.items()} for start in starts]
    still.sort(key=lambda recipe: len(_wrong(recipe, traces, side, limits)))
    until = time.monotonic() + PATIENCE
    for recipe in still[:TRIED]:
        known = _search(side, traces, recipe, limits, until)
        if best is None or len(known.left) < len(best.left):
            best = known
        if not best.left:
            break
    return best if best is not None else Known({}, dict.fromkeys(traces, math.inf))


def _still(terms: Terms, trace: Trace, side: str) -> Terms:
    """The terms, of a parameter that does not move where it did not."""
    given = any(g is not None and np.any(g) for g in trace.gradients)
    if given and not np.any(trace.steps[side]):
        return replace(terms, moves=False)
    return terms


def _wrong(recipe: Recipe, traces: Traces, side: str, limits: Mapping[str, float]) -> dict[str, float]:
    return {name: e for name, e in errors(recipe, traces, side).items() if not e <= limits[name]}


def _search(side: str, traces: Traces, recipe: Recipe, limits: Mapping[str, float], until: float) -> Known:
    """Change terms, each time by what explains most parameters.

    Until all are explained, nothing helps or time is up.
    """
    known = Known(recipe, _wrong(recipe, traces, side, limits))
    for _ in range(DEPTH):
        if not known.left:
            return known
        best = known
        for terms, changed in _changes(side, traces, known, limits):
            left = _wrong(changed, traces, side, limits)
            if len(left) < len(best.left):
                best = Known(changed, left, known.fitted | set(terms))
            if not best.left or time.monotonic() > until:
                return best
        if best is known:
            return _jointly(side, traces, known, limits, until)
        known = best
    return known


def _jointly(side: str, traces: Traces, known: Known, limits: Mapping[str, float], until: float) -> Known:
    """Two changes that only together explain what is left.

    A structural one and a value fitted on top of it.
    """
    best = known
    for terms, changed in _structural(known):
        for scalar in SCALARS:
            fitted = _fitted(side, traces, changed, list(known.left), scalar, quick=True)
            if fitted is None:
                continue
            left = _wrong(fitted, traces, side, limits)
            if len(left) < len(best.left):
                best = Known(fitted, left, known.fitted | set(terms) | {scalar})
            if not best.left or time.monotonic() > until:
                return best
    return best


def _changes(side: str, traces: Traces, known: Known, limits: Mapping[str, float]) -> Iterator[tuple[tuple[str, ...], Recipe]]:
    """Recipes with one thing changed on the parameters not explained yet.

    Structure first, then fitted values.
    """
    yield from _structural(known)
    names = list(known.left)
    for scalar in SCALARS:
        fitted = _fitted(side, traces, known.recipe, names, scalar)
        if fitted is not None:
            yield (scalar,), fitted
    yield from _clips(side, traces, known)
    each = dict(known.recipe)
    for name in names:  # a rate of its own for every parameter
        own = _fitted(side, traces, {name: known.recipe[name]}, [name], "rates")
        if own is not None and not _wrong(own, traces, side, limits):
            each.update(own)
    yield ("rates",), each
    yield ("whole",), _scaled(side, traces, known.recipe)
    yield ("whole", "clip"), _scaled(side, traces, {n: replace(t, clip="", threshold=0.0, slack=0.0) for n, t in known.recipe.items()})


def _scaled(side: str, traces: Traces, recipe: Recipe) -> Recipe:
    """A recipe with every step of all parameters times a factor of its own.

    Clipping of the update does that.
    """
    steps = moved(recipe, traces)
    squares = np.sum([(steps[n] ** 2).sum(axis=1) for n in recipe], axis=0)
    products = np.sum([(steps[n] * traces[n].steps[side]).sum(axis=1) for n in recipe], axis=0)
    with np.errstate(all="ignore"):
        factors = np.nan_to_num(np.divide(products, squares))
    return {n: replace(t, whole=tuple(float(f) for f in factors)) for n, t in recipe.items()}


def _fitted(side: str, traces: Traces, recipe: Recipe, names: list[str], scalar: str, *, quick: bool = False) -> Recipe | None:
    """The recipe with one value fitted on some parameters; None where rules lack it."""
    edit = SCALARS[scalar]
    if not all(edit.applies(recipe[name]) for name in names):
        return None
    few = sorted(names, key=lambda n: -traces[n].weight.size)[:4]
    together = recipe if any(recipe[n].clip in ("global", "group") for n in few) else {n: recipe[n] for n in few}

    def loss(value: float) -> list[np.ndarray[Any, Any]]:
        tried = {n: edit.put(t, value) if n in names else t for n, t in together.items()}
        steps = moved(tried, traces)
        return [_normed(steps[n] - traces[n].steps[side], traces[n].steps[side]) for n in few]

    value = fit(loss, edit.starts(recipe[few[0]]), edit.scale, quick=quick)
    if value is None:
        return None
    return {n: edit.put(t, value) if n in names else t for n, t in recipe.items()}


def _normed(error: np.ndarray[Any, Any], steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return error.ravel() / (float(np.linalg.norm(steps)) or 1.0)


def _structural(known: Known) -> Iterator[tuple[tuple[str, ...], Recipe]]:
    """Recipes with one structural term another one, on the parameters that are not explained."""
    for terms, edit in _edits(next(iter(known.recipe[n] for n in known.left))):
        yield terms, {n: edit(t) if n in known.left else t for n, t in known.recipe.items()}


def _edits(terms: Terms) -> Iterator[tuple[tuple[str, ...], Callable[[Terms], Terms]]]:
    """The structural changes that mean something to a family."""

    def set_(**values: Any) -> tuple[tuple[str, ...], Callable[[Terms], Terms]]:
        return tuple(values), lambda t: replace(t, **values)

    yield ("decay",), lambda t: replace(t, decay=0.0)
    if terms.decay:
        for style in ("coupled", "decoupled", "after", "unscaled", "l1"):
            if style != terms.style:
                yield set_(style=style)
    yield set_(sign=-terms.sign)
    for shift in (1, -1):
        yield ("rates",), lambda t, s=shift: replace(t, rates=_shifted(t.rates, s))  # type: ignore[misc]
    yield ("rates",), lambda t: replace(t, rates=(t.rates[0],) * len(t.rates))
    if terms.clip:
        yield set_(clip="", threshold=0.0, slack=0.0)
        yield set_(late=not terms.late)
        for kind in {"global", "group", "tensor", "value"} - {terms.clip}:
            yield set_(clip=kind)
    if terms.family in SINGLE:
        yield set_(single=not terms.single)
    yield from _family_edits(terms, set_)


def _family_edits(terms: Terms, set_: Callable[..., tuple[tuple[str, ...], Callable[[Terms], Terms]]]) -> Iterator[Any]:
    if terms.family == "sgd":
        yield set_(nesterov=not terms.nesterov)
        yield set_(first=0.0)
        yield set_(first=0.9)
        yield set_(scaled=not terms.scaled)
        yield ("dampening",), lambda t: replace(t, dampening=t.first)
        yield ("dampening", "damped"), lambda t: replace(t, dampening=t.first, damped=True)
        yield set_(dampening=0.0, damped=False)
    if terms.family in ("adam", "adabelief"):
        for corrected in ("both", "none", "first", "second"):
            if corrected != terms.corrected:
                yield set_(corrected=corrected)
        yield set_(amsgrad=not terms.amsgrad)
        yield set_(place="hat")
        yield set_(family="adabelief" if terms.family == "adam" else "adam")
        yield set_(family="adabelief", place="twice")
    if terms.family == "rmsprop":
        yield set_(centered=not terms.centered)
        yield set_(scaled=not terms.scaled)
        yield set_(first=0.0)
        yield set_(start=1.0)  # as TensorFlow starts its average of squares
    if terms.family in ("adam", "adabelief", "rmsprop", "adagrad", "adadelta", "adamax"):
        for place in ("outside", "inside"):
            if place != terms.place:
                yield set_(place=place)
    if terms.family == "adamax":
        yield set_(place="hat")
        yield set_(corrected="none")


def _shifted(rates: tuple[float, ...], by: int) -> tuple[float, ...]:
    """The rates of a schedule that is one step ahead or behind; at the ends the nearest."""
    return (*rates[1:], rates[-1]) if by > 0 else (rates[0], *rates[:-1])


def _clips(side: str, traces: Traces, known: Known) -> Iterator[tuple[tuple[str, ...], Recipe]]:
    """Clipping that no setting tells of, its threshold fitted."""
    if any(t.clip for t in known.recipe.values()):
        return
    for kind in ("global", "tensor", "value", "group"):
        for slack in (False, True) if kind != "value" else (False,):
            changed = {n: replace(t, **standard_clip(kind, _threshold(kind, traces), slack=slack)) for n, t in known.recipe.items()}
            fitted = _fitted(side, traces, changed, list(changed), "threshold")
            if fitted is not None:
                yield ("clip",), fitted


def _threshold(kind: str, traces: Traces) -> float:
    """A first guess that clips every step."""
    if kind == "value":
        return max((float(np.abs(g).max()) for t in traces.values() for g in t.gradients if g is not None and g.size), default=1.0) / 4
    count = max(len(t.gradients) for t in traces.values())
    return min(math.sqrt(sum(t.norms[s] ** 2 for t in traces.values())) for s in range(count)) / 4


# -- differences -----------------------------------------------------------------------------------------------------------------


def differences(reference: Recipe, candidate: Recipe) -> list[Difference]:
    """In which terms two recipes differ, parameters with equal differences together.

    Bundles of terms are one difference.
    """
    bundled = {name for bundle in BUNDLES for name in bundle}
    bundles = [*BUNDLES, *((f.name,) for f in fields(Terms) if f.name not in bundled and f.name != "group")]
    found: dict[Any, Difference] = {}
    for name in reference:
        for bundle in bundles:
            values = tuple(tuple(getattr(recipe[name], term) for term in bundle) for recipe in (reference, candidate))
            if values[0] == values[1]:
                continue
            known = found.setdefault((bundle, *values), Difference(bundle, values[0], values[1], []))
            known.parameters.append(name)
    return list(found.values())


def causes(reference: Recipe, candidate: Recipe, traces: Traces, limits: Mapping[str, float]) -> list[Difference]:
    """The differences without which the candidate's steps cannot be reproduced.

    Each has the error without it and with it.
    """
    kept, recipe = [], dict(candidate)
    others = differences(reference, candidate)
    families = [d for d in others if d.terms == ("family",)]
    if families:  # then the other terms have nothing in common
        _measure(families[0], reference, candidate, traces)
        return families[:1]
    for difference in sorted(others, key=_weight):
        tried = _put(recipe, difference, difference.reference)
        if _is_of_storing(difference) or not _wrong(tried, traces, "candidate", limits):
            recipe = tried
        else:
            kept.append(difference)
    after = errors(recipe, traces, "candidate")
    for difference in kept:
        without = errors(_put(recipe, difference, difference.reference), traces, "candidate")
        names = [n for n in without if not without[n] <= limits[n]] or difference.parameters
        difference.before = max(without[n] for n in names)
        difference.after = max(after[n] for n in names)
    return sorted(kept, key=lambda d: -d.before)


def _is_of_storing(difference: Difference) -> bool:
    """Whether rates, or sizes of steps, differ by no more than float32 makes of them."""
    if difference.terms[0] not in STEPWISE:
        return False
    sizes = [values[0] for values in (difference.reference, difference.candidate)]
    longest = max(map(len, sizes))
    first, second = (each or (1.0,) * longest for each in sizes)  # none: each step as the rule has it
    return len(first) == len(second) and bool(np.allclose(first, second, rtol=SAME, atol=0.0))


def _measure(difference: Difference, reference: Recipe, candidate: Recipe, traces: Traces) -> None:
    before, after = errors(reference, traces, "candidate"), errors(candidate, traces, "candidate")
    difference.before, difference.after = (max(found[n] for n in difference.parameters) for found in (before, after))


def _weight(difference: Difference) -> int:
    """Differences that seldom matter are dropped first."""
    order = ("slack", "single", "dampening", "damped", "scaled", "drift", "fading", "place", "eps", "corrected", "amsgrad")
    return order.index(difference.terms[0]) if difference.terms[0] in order else len(order)


def _put(recipe: Recipe, difference: Difference, values: tuple[Any, ...]) -> Recipe:
    change = dict(zip(difference.terms, values, strict=True))
    return {n: replace(t, **change) if n in difference.parameters else t for n, t in recipe.items()}


# -- without a rule --------------------------------------------------------------------------------------------------------------


def factors(traces: Traces, limits: Mapping[str, float]) -> dict[str, float]:
    """Parameters whose steps are the reference's times one number -> that number."""
    found = {}
    for name, trace in traces.items():
        first, second = trace.steps["reference"], trace.steps["candidate"]
        size = float((first * first).sum())
        factor = float((first * second).sum()) / size if size else 0.0
        if factor and far(factor * first, second) <= limits[name]:
            found[name] = factor
    return found
