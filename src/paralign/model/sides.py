"""A side of a check: one of the two programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional


@dataclass
class Side:
    """One of the two programs: its framework and those of its functions that it has.

    Args:
        framework: ``torch``, ``paddle`` or ``numpy``; None takes it from the model.
        model: the model itself, for a side that lives in this process.
        loss: ``loss(outputs, labels)`` -> scalar tensor.
        optimizer: ``optimizer(parameters)`` -> optimizer.
        functions: any function of ``registry.SIGNATURES`` by name; ``model``, ``loss`` and ``optimizer`` are shorthands for three of them.
        device: where inputs are put and the model is expected, ``cpu`` or ``gpu:0``.
    """

    framework: Optional[str] = None
    model: Any = None
    loss: Optional[Callable[..., Any]] = None
    optimizer: Optional[Callable[..., Any]] = None
    scheduler: Optional[Callable[..., Any]] = None
    metric: Optional[Callable[..., Any]] = None
    dataset: Optional[Callable[..., Any]] = None
    dataloader: Optional[Callable[..., Any]] = None
    transforms: Optional[Callable[..., Any]] = None
    predict: Optional[Callable[..., Any]] = None
    export: Optional[Callable[..., Any]] = None
    functions: Dict[str, Callable[..., Any]] = field(default_factory=dict)
    device: str = "cpu"
