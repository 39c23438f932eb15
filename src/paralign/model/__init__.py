"""The nouns of paralign: plain data, no behaviour beyond reading it.

Everything here runs on Python 3.8 with numpy alone.
"""

from __future__ import annotations

from paralign.model.argument_differences import ArgumentDifference, are_comparable, argument_differences
from paralign.model.as_json import plain
from paralign.model.divergences import Divergence, Finding, LineProposal, OtherAxis, Point, TracedValue
from paralign.model.judged_pairs import (
    ALIGNED,
    DIVERGED,
    ERROR,
    NOT_TESTED,
    UNDERPOWERED,
    Noise,
    Pair,
    Stats,
    Tolerance,
    Unjudged,
    overall,
    wrong_of,
)
from paralign.model.records import ROLES, SCHEMA, Manifest, Pass, Record, SourceLine
from paralign.model.results import CheckResult, Coverage, Listing, StageResult
from paralign.model.sides import Side
from paralign.model.timings import CheckTime, JobTime, PartTime, SideTime

__all__ = [
    "ALIGNED",
    "DIVERGED",
    "ERROR",
    "NOT_TESTED",
    "ROLES",
    "SCHEMA",
    "UNDERPOWERED",
    "ArgumentDifference",
    "CheckResult",
    "CheckTime",
    "Coverage",
    "Divergence",
    "Finding",
    "JobTime",
    "LineProposal",
    "Listing",
    "Manifest",
    "Noise",
    "OtherAxis",
    "Pair",
    "PartTime",
    "Pass",
    "Point",
    "Record",
    "Side",
    "SideTime",
    "SourceLine",
    "StageResult",
    "Stats",
    "Tolerance",
    "TracedValue",
    "Unjudged",
    "are_comparable",
    "argument_differences",
    "overall",
    "plain",
    "wrong_of",
]
