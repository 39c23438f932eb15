"""Inputs and labels that nothing has seen, drawn for a stage of a round."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.run import inputs as tensors
from paralign.run.kinds_of_inputs import Kind, varied

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.context import Context
    from paralign.verification.case import Case

#: seeds lie below this
SEEDS = 2**31


def draw_for(case: Case, context: Context, own: Path, stage: str, size: int | None) -> None:
    """Draw inputs and labels that nothing has seen.

    For ``forward`` a set of each kind, for ``backward`` a batch for each step.
    """
    further: tuple[Kind, ...] = ()
    lengths: list[int | None] = []
    if stage == "forward":
        further = case.kinds
        lengths = [_other_length(case, size) if kind is Kind.SPECIFIED else size for kind in further]
    elif stage == "backward" and case.project.labels is not None:
        further = (Kind.SPECIFIED,) * (context.settings.steps - 1)
        lengths = [size] * len(further)
    for name, spec in (("inputs", case.project.inputs), ("labels", case.project.labels)):
        if spec is None:
            continue
        sets = zip((size, *lengths), (Kind.SPECIFIED, *further), strict=True)
        drawn = [draw_set(case, name, at_length(spec, length), kind) for length, kind in sets]
        setattr(context, name, tensors.save_several(own / f"{name}-{stage}", name, drawn))


def _other_length(case: Case, size: int | None) -> int | None:
    """Another length of the first axis, where it may have several.

    It is one that nobody named, up to one more than the greatest that was.
    """
    if not case.sizes:
        return size
    others = [n for n in range(min(case.sizes), max(case.sizes) + 2) if n != size]
    return secrets.choice(others) if others else size


def draw_set(case: Case, name: str, spec: Any, kind: Kind) -> Any:
    """One set of inputs or labels, of a kind."""
    made = tensors.make(spec, case.project.folder, f"[{name}]", secrets.randbelow(SEEDS))
    return varied(spec, made, kind, np.random.default_rng(secrets.randbelow(SEEDS)))


def at_length(spec: Any, size: int | None) -> Any:
    """A table of inputs with another length of the first axis."""
    if size is None:
        return spec
    if isinstance(spec, list):
        return [at_length(part, size) for part in spec]
    if "keywords" in spec:
        return {"keywords": {key: at_length(part, size) for key, part in spec["keywords"].items()}}
    return {**spec, "shape": [size, *spec.get("shape", [])[1:]]}
