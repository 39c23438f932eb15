"""paralign ports a model to another framework and proves that it is the same model.

Or to another device or precision.

The names below are loaded when they are first used, so that ``import paralign`` costs nothing; no framework is ever
imported by the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "CheckResult",
    "ParalignError",
    "Side",
    "StageResult",
    "Tolerance",
    "TrainLog",
    "check",
    "compare",
    "compare_logs",
    "convert_weights",
    "diff_weights",
    "locate_captures",
    "read_log",
]

_HOMES = {
    "Capture": "paralign.capture",
    "CheckResult": "paralign.model",
    "ParalignError": "paralign.errors",
    "Side": "paralign.model",
    "StageResult": "paralign.model",
    "Tolerance": "paralign.model",
    "TrainLog": "paralign.trainlog",
    "check": "paralign.api",
    "compare": "paralign.api",
    "compare_logs": "paralign.training",
    "convert_weights": "paralign.api",
    "diff_weights": "paralign.conversion.difference",
    "locate_captures": "paralign.api",
    "read_log": "paralign.training",
}

if TYPE_CHECKING:
    from paralign.api import check, compare, convert_weights, locate_captures
    from paralign.capture import Capture
    from paralign.conversion.difference import diff_weights
    from paralign.errors import ParalignError
    from paralign.model import CheckResult, Side, StageResult, Tolerance
    from paralign.training import compare_logs, read_log
    from paralign.trainlog import TrainLog


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paralign' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted([*globals(), *__all__])
