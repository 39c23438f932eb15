"""Gradients as an optimizer clips them, whatever it does with them then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numpy.typing import NDArray

    #: gradients by the names of their parameters
    Gradients = Mapping[str, NDArray[Any]]
    #: for each parameter that is clipped, what it is clipped together with
    Together = Mapping[str, Hashable]


def company(kind: str, name: str, group: int) -> Hashable:
    """What a parameter's gradient is clipped together with: all of one company have one norm.

    Args:
        kind: ``global``, ``group``, ``tensor`` or ``value``.
        name: of the parameter.
        group: the number of its group.
    """
    return {"global": "", "group": group}.get(kind, (kind, name))


def sizes(gradients: Gradients, kind: str, together: Together) -> dict[Hashable, float]:
    """What is held against the threshold, by company.

    Its norm; its greatest element where elements are clipped.
    """
    members: dict[Hashable, list[NDArray[Any]]] = {}
    for name, value in gradients.items():
        if name in together:
            members.setdefault(together[name], []).append(value)
    if kind == "value":
        return {each: max(float(np.abs(value).max(initial=0.0)) for value in values) for each, values in members.items()}
    return {each: length(values) for each, values in members.items()}


def clipped(gradients: Gradients, kind: str, threshold: float, together: Together) -> dict[str, NDArray[Any]]:
    """The gradients after clipping; those that nothing is said of stay as they are."""
    if kind == "value":
        return {name: np.clip(value, -threshold, threshold) if name in together else value for name, value in gradients.items()}
    norms = sizes(gradients, kind, together)
    factors = {each: threshold / norm if norm > threshold else 1.0 for each, norm in norms.items()}
    return {name: value * factors[together[name]] if name in together else value for name, value in gradients.items()}


def length(values: Iterable[NDArray[Any]]) -> float:
    """The L2 norm of several arrays together."""
    flat = (value.ravel() for value in values)
    return float(np.sqrt(sum(float(value @ value) for value in flat)))
