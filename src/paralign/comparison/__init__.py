"""Statistics of a pair of tensors in one pass, arrangements, and the verdict.

An arrangement may explain a difference.
"""

from __future__ import annotations

from paralign.comparison.judge import judge
from paralign.comparison.measure import measure
from paralign.comparison.pairs import compare_pair, complete
from paralign.comparison.recognise import recognise

__all__ = ["compare_pair", "complete", "judge", "measure", "recognise"]
