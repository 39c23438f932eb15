"""Statistics of a pair of tensors in one pass, what arrangement would explain a difference, and the verdict on it."""

from __future__ import annotations

from paralign.comparison.judge import judge
from paralign.comparison.measure import measure
from paralign.comparison.pairs import compare_pair, complete
from paralign.comparison.recognise import recognise

__all__ = ["compare_pair", "complete", "judge", "measure", "recognise"]
