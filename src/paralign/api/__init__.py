"""The public verbs: ``check``, ``compare`` and ``convert_weights``."""

from __future__ import annotations

from paralign.api.live_check import check
from paralign.api.opened_project import gradient_of, opened, trained_layers
from paralign.api.project_check import Mended, check_project, durations, repair_project
from paralign.api.recorded_runs import compare, locate_captures
from paralign.api.weights_conversion import convert_optimizer, convert_weights
from paralign.model import CheckResult
from paralign.report import notebook

__all__ = [
    "Mended",
    "check",
    "check_project",
    "compare",
    "convert_optimizer",
    "convert_weights",
    "durations",
    "gradient_of",
    "locate_captures",
    "opened",
    "repair_project",
    "trained_layers",
]

CheckResult.renderer = staticmethod(notebook.html)
