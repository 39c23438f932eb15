"""What a conversion of weights came to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paralign.weights import Rules
from paralign.weights.transforms import reached

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.weights import Way

#: the verdicts: names and layouts as they were, which nothing has to prove; as the user's rules say; shown by running both models;
#: neither shown nor refuted; refuted by running both models; tensors without a place, so that nothing was written
KEPT, FOLLOWED, PROVEN, UNPROVEN, DIFFERS, INCOMPLETE = "kept", "as the rules say", "proven", "not proven", "differs", "incomplete"


@dataclass
class Conversion:
    """A conversion, planned and perhaps written.

    Args:
        source: what was read.
        destination: what was asked for.
        verdict: one of the verdicts of this module.
        frameworks: which framework laid the tensors out in the source, and which is to read the destination; '' where nothing tells.
        ways: the way of every tensor that goes.
        shapes: of the source's tensors by name.
        rules: the same as a short table that makes these ways of the names again.
        dropped: tensors of the source that need no place, or that a rule leaves out.
        left: what else the source holds, such as the optimizer's state.
        untold: matrices whose layout nothing tells; they were not transposed.
        unplaced: tensors of either side without a twin, each with the reason.
        ambiguous: what the proof could not tell apart.
        untested: what it had no runs for.
        notes: what else is to be known.
        runs: how often the models were run.
        error: of the outputs, in units of what is allowed; None where nothing was run.
        files: what was written; of shards, the index is last. Empty where nothing was.
        bytes: of these files.
        seconds: that the writing took.
        urls: where the files were put, one after the other, if the destination is a URL; then ``files`` were passing.
        asked: the URLs of source and destination, '' of what is a path.
    """

    source: Path
    destination: Path
    verdict: str = KEPT
    frameworks: tuple[str, str] = ("", "")
    ways: list[Way] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    dropped: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    unplaced: list[tuple[str, str]] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runs: int = 0
    error: float | None = None
    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    seconds: float = 0.0
    urls: list[str] = field(default_factory=list)
    asked: tuple[str, str] = ("", "")

    @property
    def unchanged(self) -> int:
        """How many tensors keep their name and layout."""
        whole = [way for way in self.ways if way.transform is None and way.into is None]
        return sum(way.source == way.destination for way in whole)

    def shapes_of(self, way: Way) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A tensor's shapes in source and destination, there of the whole."""
        here = self.shapes[way.source]
        return here, way.shape if way.shape is not None else reached(way.transform, here)

    def to_json(self) -> str:
        """Everything as JSON; an error that is not finite becomes text."""
        error: float | str | None = self.error
        if self.error is not None and not self.error < float("inf"):
            error = "infinite"
        tensors = []
        for way in self.ways:
            source_shape, destination_shape = self.shapes_of(way)
            tensors.append({**way._asdict(), "source_shape": source_shape, "destination_shape": destination_shape})
        told: dict[str, Any] = {
            "source": self.asked[0] or str(self.source),
            "destination": self.asked[1] or str(self.destination),
            "verdict": self.verdict,
            "frameworks": dict(zip(("source", "destination"), self.frameworks, strict=True)),
            "error": error,
            "unplaced": [{"tensor": name, "why": why} for name, why in self.unplaced],
            "tensors": tensors,
            "rules": [dict(zip(("reference", "candidate", "way", "count"), row, strict=True)) for row in self.rules.rows()],
            "files": self.urls or [str(path) for path in self.files],
        }
        plain = ("dropped", "left", "untold", "ambiguous", "untested", "notes", "runs", "bytes", "seconds", "unchanged")
        told |= {name: getattr(self, name) for name in plain}
        return json.dumps(told, indent=2)
