"""Models that exist in both frameworks and that nobody here wrote: how to build each pair, what to feed it, whether it is one model.

``PAIRS`` lists them all; ``pair.build()`` gives the PyTorch model, the Paddle model and the inputs (a tuple of arrays, or a dict for
keywords), with the random weights that their libraries give them. ``pair.difference`` says why two are not the same model; '' where
they are. An import of this file imports no framework.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zoo_formers
import zoo_language
import zoo_layers
import zoo_vision
from zoo_differences import DIFFERENCES

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Pair:
    """A reference and its candidate."""

    group: str
    reference: str
    candidate: str
    build: Callable
    #: rules that force a mapping, made of the two models
    rules: Callable | None = None

    @property
    def name(self) -> str:
        return f"{self.reference} / {self.candidate}"

    @property
    def difference(self) -> str:
        return DIFFERENCES.get((self.reference, self.candidate), "")

    @property
    def equivalent(self) -> bool:
        return not self.difference


GROUPS = {
    "vision": zoo_vision.torchvision_pairs,
    "clas": zoo_vision.timm_pairs,
    "builtin": zoo_layers.builtin_pairs,
    "layer": zoo_layers.layer_pairs,
    "nlp": zoo_language.pairs,
    "formers": zoo_formers.pairs,
}

PAIRS = [Pair(group, *pair) for group, pairs in GROUPS.items() for pair in pairs()]
