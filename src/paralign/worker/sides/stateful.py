"""Metrics that keep a state, used as functions.

torchmetrics' have update, compute, reset; Paddle's compute, update, accumulate.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Tuple

import numpy as np

if TYPE_CHECKING:
    from paralign.worker.sides.session import Session

#: what a stateful metric is known by: it takes batches, and gives a result at the end by one of these
RESULT = ("accumulate", "compute")


def is_stateful(value: Any) -> bool:
    """Whether a value is a metric that takes batches by ``update`` and gives its result later."""
    if not callable(getattr(value, "update", None)) or not callable(getattr(value, "reset", None)):
        return False
    return any(hasattr(value, r) for r in RESULT)


def instance(metric: Any) -> Any:
    """The stateful metric behind a side's ``metric``; None for a plain function.

    Itself, one of its class, or what the function makes.
    """
    if inspect.isclass(metric):
        return metric() if is_stateful(metric) else None
    if is_stateful(metric):
        return metric
    if not callable(metric) or _needs_arguments(metric):
        return None
    made = metric()
    return made if is_stateful(made) else None


def _needs_arguments(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        for p in parameters
    )


def function_of(session: "Session") -> Callable[[Any, Any], Any]:
    """The side's metric as a function of outputs and labels.

    A stateful one is reset before each use.
    """
    metric = session.function("metric")
    kept = instance(metric)
    taking = metric if kept is None else (lambda outputs, labels: over(session, kept, [(outputs, labels)]))
    return session.beside.wrapped(session, "metric", taking)


def running(session: "Session", batches: Iterable[Tuple[Any, Any]]) -> Optional[Any]:
    """What a stateful metric gives after all batches, each taken in once.

    None for a plain function.
    """
    kept = instance(session.function("metric"))
    if kept is None:
        return None
    return session.beside.wrapped(session, "metric", lambda given: over(session, kept, given))(batches)


def over(session: "Session", metric: Any, batches: Iterable[Tuple[Any, Any]]) -> Any:
    """Reset a metric, have it take in batches, and give its result."""
    metric.reset()
    paddles = hasattr(metric, "accumulate")
    for outputs, labels in batches:
        if not paddles:
            metric.update(outputs, labels)
            continue
        given = metric.compute(outputs, labels) if hasattr(metric, "compute") else (outputs, labels)
        metric.update(*(_plain(session, g) for g in (given if isinstance(given, (list, tuple)) else [given])))
    result = metric.accumulate() if paddles else metric.compute()
    return _named(metric, result)


def _plain(session: "Session", value: Any) -> Any:
    """An array, as Paddle's own training loop hands it to ``update``."""
    return np.asarray(session.adapter.to_array(value).array) if session.adapter.is_tensor(value) else value


def _named(metric: Any, result: Any) -> Any:
    """Several results under the names that Paddle's metrics give them; a single one as it is."""
    name = getattr(metric, "name", None)
    names = name() if callable(name) else None
    if isinstance(names, (list, tuple)) and isinstance(result, (list, tuple)) and len(names) == len(result):
        return dict(zip(map(str, names), result))
    return result
