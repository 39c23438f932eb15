"""Evaluations of models that draw random numbers in eval mode.

They are judged by how far each side is from itself under other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.worker.protocol import Own

#: evaluations of a side under further seeds, beside the one that there is
FURTHER = 4

#: Student's t, two-sided, at 0.1 % with 8 degrees of freedom, as two groups of five have
CRITICAL = 5.04


@dataclass
class Redrawn:
    """Which results differ by more than the draws explain, and a remark."""

    apart: list[str]
    note: str


def judge(
    context: Context,
    order: Own,
    values: list[dict[str, Any]],
    apart: list[str],
    read: Callable[[Capture], dict[str, Any]],
) -> Redrawn | None:
    """Judge results that differ by groups of evaluations under several seeds.

    None where a side's do not depend on the seed.

    Args:
        context: of the check.
        order: of the evaluations.
        values: results of the reference and the candidate, by name.
        apart: names of those that differ.
        read: gives a capture's results by name.

    Raises:
        WorkerFailed: a side fails.
    """
    groups: list[list[dict[str, Any]]] = [[found] for found in values]
    for shift in range(1, FURTHER + 1):
        for group, capture in zip(groups, _evaluated(context, order, shift), strict=True):
            group.append(read(capture))
        if shift == 1 and not all(_moves(group, apart) for group in groups):
            return None
    kept, limits = [], []
    for name in apart:
        gap, limit = _gap([np.stack([found[name] for found in group]).astype(np.float64) for group in groups])
        limits.append(f"{name or 'metric'} {float(limit.max()):.3g}")
        if not bool((gap <= limit).all()):  # also where one is NaN
            kept.append(name)
    times = FURTHER + 1
    told = f"the model draws random numbers in eval mode: {times} evaluations a side under other seeds; "
    if context.forwarded and not context.drawn:
        told = f"the model draws nothing in eval mode, but its loader gives other batches: {times} evaluations a side under other seeds; "
    return Redrawn(kept, told + "differences below these would not show: " + ", ".join(limits))


def _evaluated(context: Context, order: Own, shift: int) -> tuple[Capture, Capture]:
    name = f"own-evaluation-{shift}"
    try:
        return context.record_both(name, replace(order, shift=shift))
    finally:
        context.artifacts.pop(name, None)


def _moves(group: list[dict[str, Any]], names: list[str]) -> bool:
    """Whether a side's results change with the seed."""
    return any(name in group[1] and not np.array_equal(group[0][name], group[1][name], equal_nan=True) for name in names)


def _gap(groups: list[Any]) -> tuple[Any, Any]:
    """How far two groups' means are apart, and how far their spread lets them be."""
    gap = np.abs(groups[0].mean(0) - groups[1].mean(0))
    variance = sum(group.var(0, ddof=1) / len(group) for group in groups)
    return gap, CRITICAL * np.sqrt(variance)
