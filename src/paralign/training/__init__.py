"""Logs of trainings: read, compared, written again in another form."""

from __future__ import annotations

from paralign.training.compared import Gap, LogComparison, compare_logs
from paralign.training.logs import Damaged, Log, read_log

__all__ = ["Damaged", "Gap", "Log", "LogComparison", "compare_logs", "read_log"]
