"""A part of a rewritten program that is run: what it is given, and what is kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional

if TYPE_CHECKING:
    from paralign.capture import Capture, CaptureWriter
    from paralign.worker.instrumentation.observed import Recorder
    from paralign.worker.protocol import Provenance
    from paralign.worker.sides.session import Session

Functions = Dict[str, Callable[..., Any]]
Roots = Dict[str, int]


class Run(NamedTuple):
    """A part under way: the side, the recorder, what was given, and the roots so far.

    ``functions`` are those of the rewritten modules.
    """

    session: Session
    recorder: Recorder
    functions: Functions
    writer: "CaptureWriter"
    captures: "Dict[str, Capture]"
    options: Provenance
    roots: Roots
    rates: List[List[float]]

    def root(self, name: str, number: Optional[int]) -> None:
        """Keep the event of what a name stands for, where it is known."""
        if number is not None:
            self.roots[name] = number

    def leaves(self, name: str, made: Roots) -> None:
        """Keep the events of a result."""
        for path, number in made.items():
            self.roots[f"{name}:{path}"] = number

    def gradients(self, model: Any, watched: List[Any]) -> None:
        """Keep what made the gradients that reach the first update, of some tensors of a model."""
        for name, gradient in self._known(model, watched).items():
            if f"gradient:{name}" not in self.roots:
                self.root(f"gradient:{name}", self.recorder.origin_of(gradient))

    def values(self, name: str, tensors: "Dict[str, Any]") -> None:
        """Keep what made some tensors; of those that nothing of the user's made, what they are.

        Args:
            name: what their roots begin with.
            tensors: by their own names.
        """
        for own, tensor in tensors.items():
            number = self.recorder.origin_of(tensor)
            self.root(f"{name}:{own}", self.recorder.given(f"{name}:{own}", tensor) if number is None else number)

    def gradients_of(self, name: str, model: Any, watched: List[Any]) -> None:
        """Keep the gradients of some tensors of a model, unless that was done already."""
        known = self._known(model, watched)
        if not any(f"{name}:{own}" in self.roots for own in known):
            self.values(name, known)

    def _known(self, model: Any, watched: List[Any]) -> "Dict[str, Any]":
        """The gradients of some tensors, of those that have one."""
        known: Any = self.session.adapter.gradients(model) if watched else {}  # type: ignore[attr-defined] # of those that train
        return {entry.name: known[entry.name] for entry in watched if known.get(entry.name) is not None}
