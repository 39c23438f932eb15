"""Inputs that were not used to find a fault.

A patch is proven only if it holds on them as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.checking import given_tensors
from paralign.dtypes import Typed, is_complex, is_floating, narrow, typed, widen
from paralign.run import inputs as tensors
from paralign.worker.values.trees import leaves, rebuild, structure

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.run.project import Project

#: the two sets: one like the check's, one that is large enough for clipping and saturation to show
LIKE, LARGE = "like", "large"

#: how far elements are moved, in root mean squares, and by what the large ones are multiplied
SPREAD, FACTOR = 0.5, 4.0

#: seeds far from those of a check
_SEEDS = {LIKE: 7_001, LARGE: 7_002}


def given(project: Project, context: Context, folder: Path, name: str) -> tuple[Capture | None, Capture | None]:
    """Inputs and labels: those of the check for '', else drawn anew from them.

    What the project file draws is drawn with another seed. Of other inputs floating elements are moved at random; whole numbers, truth
    values and texts stay, because which of them a program takes is not known. Labels stay.
    """
    own, labels = given_tensors(project, context, folder)
    if not name or own is None:
        return own, labels
    seed = project.settings.seed + _SEEDS[name]
    spec = project.inputs
    drawn = spec is not None and not _is_read(spec)
    value = tensors.make(_reseeded(spec), project.folder, "[inputs]", seed) if drawn else _tree(own)
    return tensors.save(folder / f"inputs-{name}", "inputs", _moved(value, np.random.default_rng(seed), name)), labels


def _is_read(spec: Any) -> bool:
    """Whether inputs come from a file or a loader."""
    parts = spec if isinstance(spec, list) else list(spec["keywords"].values()) if "keywords" in spec else [spec]
    return any("file" in part or "source" in part for part in parts)


def _reseeded(spec: Any) -> Any:
    """A table of inputs without a seed of its own."""
    if isinstance(spec, list):
        return [_reseeded(part) for part in spec]
    if "keywords" in spec:
        return {"keywords": {key: _reseeded(part) for key, part in spec["keywords"].items()}}
    return {key: value for key, value in spec.items() if key != "seed"}


def _tree(capture: Capture) -> Any:
    """The recorded inputs as nested arrays."""
    records = {record.leaf: record for record in capture.records if record.name == "inputs"}
    shape = capture.manifest.settings["trees"]["inputs"]
    return rebuild(shape, lambda path: capture.value(records[path]) if records[path].text is None else records[path].text)


def _moved(value: Any, random: np.random.Generator, name: str) -> Any:
    """Nested arrays with floating elements moved."""
    moved = {path: _elements(leaf, random, name) if _is_array(leaf) else leaf for path, leaf in leaves(value, _is_array)}
    return rebuild(structure(value, _is_array), lambda path: moved[path])


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | Typed)


def _elements(leaf: Any, random: np.random.Generator, name: str) -> Any:
    held = leaf if isinstance(leaf, Typed) else typed(leaf)
    if not is_floating(held.dtype) or is_complex(held.dtype) or held.array.size == 0:
        return held
    wide = np.asarray(widen(held), dtype=np.float64)
    finite = np.isfinite(wide)
    size = float(np.sqrt(np.mean(np.square(wide[finite])))) if finite.any() else 0.0
    drawn = wide + SPREAD * size * random.standard_normal(wide.shape)
    drawn = np.where((wide >= 0).all(), np.abs(drawn), drawn)  # what has no sign keeps having none: ages, counts, roots are taken of it
    drawn = drawn * (FACTOR if name == LARGE else 1.0)
    return narrow(np.where(finite, drawn, wide), held.dtype)
