"""Weights from file to file: by rules or by two models, proven where both can run.

And what two files differ in.
"""

from __future__ import annotations

from paralign.conversion.conversion_outcome import Conversion

__all__ = ["Conversion"]
