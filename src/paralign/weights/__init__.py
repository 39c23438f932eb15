"""Weights from one model to another: which tensor goes where, and in which layout."""

from __future__ import annotations

from paralign.weights.matching import plan
from paralign.weights.plan import SHARED, Ambiguity, Move, Plan, apply, invert

__all__ = ["SHARED", "Ambiguity", "Move", "Plan", "apply", "invert", "plan"]
