"""Weights from one model to another: which tensor goes where, and in which layout."""

from __future__ import annotations

from paralign.weights.byname import Followed, Way, follow
from paralign.weights.copies import Copy
from paralign.weights.copies import follow as follow_copies
from paralign.weights.exact import exact
from paralign.weights.matching import plan
from paralign.weights.pairing_by_use import Use, by_use, open_moves
from paralign.weights.plan import SHARED, Ambiguity, Choice, Move, Option, Plan, apply, invert
from paralign.weights.proof import Alike, Proof, is_computed, prove
from paralign.weights.rules import Drop, Rename, Route, Rules, rules_from_toml, to_toml

__all__ = [
    "SHARED",
    "Alike",
    "Ambiguity",
    "Choice",
    "Copy",
    "Drop",
    "Followed",
    "Move",
    "Option",
    "Plan",
    "Proof",
    "Rename",
    "Route",
    "Rules",
    "Use",
    "Way",
    "apply",
    "by_use",
    "exact",
    "follow",
    "follow_copies",
    "invert",
    "is_computed",
    "open_moves",
    "plan",
    "prove",
    "rules_from_toml",
    "to_toml",
]
