"""Many ports, one report.

Each is checked in a process of its own, what is done already is not done again.
"""

from __future__ import annotations

from paralign.sweeping.engine import sweep
from paralign.sweeping.one_port import Outcome
from paralign.sweeping.ports import Port, Sweep, read

__all__ = ["Outcome", "Port", "Sweep", "read", "sweep"]
