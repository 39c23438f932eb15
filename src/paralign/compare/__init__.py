"""Statistics of a pair of tensors in one pass, what arrangement would explain a difference, and the verdict on it."""

from __future__ import annotations

from paralign.compare.judge import judge
from paralign.compare.measure import measure
from paralign.compare.pairs import compare_pair
from paralign.compare.recognise import recognise

__all__ = ["compare_pair", "judge", "measure", "recognise"]
