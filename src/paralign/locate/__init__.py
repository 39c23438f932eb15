"""Where two runs part: the first place with good inputs and a bad output."""

from __future__ import annotations

from paralign.locate.modules.first import first_module

__all__ = ["first_module"]
